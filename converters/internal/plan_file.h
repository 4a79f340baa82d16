// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "converters/internal/option_text.h"
#include "converters/internal/plan.h"
#include "converters/internal/source_set.h"

namespace shardmill::internal {

/// A plan as it lies in a destination: all that a later run, or another rank, needs to go on
/// without looking at the sources again.
struct StoredPlan {
  OptionTexts options;
  ConvertPlan plan;
  SourceSet sources;
  std::vector<std::string> keep;  ///< Names in the destination that are not the conversion's.
};

/// Writes the plan into `directory`, first its bulk, then kPlanName.
void save_plan(const std::filesystem::path& directory, const OptionTexts& options,
               const ConvertPlan& plan, const SourceSet& sources,
               const std::vector<std::string>& keep);

/// Reads it. Throws kDataLoss for a plan that is not whole or was made by another version.
StoredPlan load_plan(const std::filesystem::path& directory);

/// The shards of the plan in `directory`, as far as it can be read; never throws for its content.
struct PlannedName {
  std::string part;
  std::string url;
};
std::vector<PlannedName> planned_names(const std::filesystem::path& directory);

}  // namespace shardmill::internal
