// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/digest.h>
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "converters/internal/forecast.h"
#include "converters/internal/journal.h"
#include "converters/internal/plan.h"
#include "converters/internal/source_set.h"
#include "converters/internal/task_pool.h"
#include "converters/internal/transform.h"

namespace shardmill::internal {

/// Writes whole shards, one after the other. One per process.
class ShardWriter {
 public:
  /// `destination` is where the plan's parts lie.
  ShardWriter(const SourceSet& sources, const ConvertPlan& plan, const ConvertOptions& options,
              const std::filesystem::path& destination);

  /// Writes shard `number` of the plan, with its list of sample hashes. Throws what reading,
  /// converting and writing meet, the first in the order of the samples.
  FinishedShard write(std::size_t number, TaskContext& context);

 private:
  struct SampleSum {
    std::string key;  // only where readers sort by it
    std::uint64_t value;
  };
  struct Attempt;

  bool attempt(const PlannedShard& planned, Attempt& state, TaskContext& context);
  std::uint64_t copy_sample(std::uint64_t position, Attempt& state);
  void skip(const Error& error, std::uint64_t position, Attempt& state, TaskContext& context);
  void save_sums(const PlannedShard& planned, std::vector<SampleSum>& sums) const;
  std::filesystem::path directory_of(const PlannedShard& planned) const;

  const SourceSet& sources_;
  const ConvertPlan& plan_;
  const ConvertOptions& options_;
  const Format& format_;
  std::filesystem::path destination_;
  SourceReader reader_;
  Transform transform_;
  SampleHasher hasher_;
  SpaceGuard space_;
};

}  // namespace shardmill::internal
