// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/convert.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "converters/internal/destination.h"
#include "converters/internal/journal.h"
#include "converters/internal/plan.h"
#include "converters/internal/source_set.h"

namespace shardmill::internal {

/// All that writing needs.
struct Execution {
  const SourceSet& sources;
  const ConvertPlan& plan;
  const ConvertOptions& options;
  Destination& destination;
  const std::vector<std::string>& keep;  ///< See StoredPlan::keep.
};

/// Returns the shards of journals that are still there as they were finished.
std::map<std::size_t, FinishedShard> still_there(const Execution& what,
                                                 const JournalState& journals);

/// Writes the shards `todo` and notes each in the journal of this rank. Throws what the first in
/// order met, or Interrupted; what is in the journal then counts for the next run.
std::vector<FinishedShard> write_shards(const Execution& what, const std::vector<std::size_t>& todo,
                                        const Observer& observer);

/// Writes the manifests of all parts and removes the plan. `finished` has all shards. Adds to
/// `report`.
void complete(const Execution& what, const std::map<std::size_t, FinishedShard>& finished,
              ConvertReport& report);

/// Makes those shards of a complete dataset again that are missing or have another size than the
/// manifest says. Throws kDataLoss if the sources do not give the same any more. Returns how many.
std::size_t rebuild_missing(const Execution& what, const Observer& observer);

/// Adds up what was left out, in the order of the plan, and writes ConvertOptions::error_log.
void report_skipped(const ConvertPlan& plan, const std::map<std::size_t, FinishedShard>& finished,
                    const ConvertOptions& options, ConvertReport& report);

}  // namespace shardmill::internal
