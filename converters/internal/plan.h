// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/convert.h>
#include <shardmill/formats/manifest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "converters/internal/sample_order.h"
#include "converters/internal/source_set.h"

namespace shardmill::internal {

/// One shard that will be written: positions first ... first + samples - 1 of the order.
struct PlannedShard {
  std::string url;       ///< As in its part's manifest.
  std::size_t part = 0;  ///< Number in ConvertPlan::parts.
  std::uint64_t first = 0;
  std::uint64_t samples = 0;
  std::uint64_t source_bytes = 0;
};

/// Samples that become one dataset: the destination itself, or a directory in it.
struct PlannedPart {
  std::string name;   ///< The directory in the destination; empty: the destination.
  Manifest manifest;  ///< As it will be written, without what only written shards can tell.
  std::uint64_t samples = 0;
};

/// Everything that is decided before the first byte is written.
struct ConvertPlan {
  SampleOrder order;
  std::vector<PlannedPart> parts;
  std::vector<PlannedShard> shards;  ///< Of all parts, in their order.
  std::uint64_t source_bytes = 0;
  std::uint64_t forecast_bytes = 0;  ///< What the shards will take, about.
  std::uint64_t forecast_plus_minus = 0;
  std::vector<SkippedSample> skipped;  ///< Samples that could not even be scanned.
};

/// Scans the sources once, in their own order, and plans the shards.
/// Tells the observer what the user should know before writing. Throws kDataLoss for keys that
/// are wrong or come twice.
ConvertPlan make_plan(const SourceSet& sources, const ConvertOptions& options,
                      const Observer& observer);

/// Returns a part's shards as one DATASET argument: the first and the last number in braces.
std::string shard_pattern(const ConvertPlan& plan, std::size_t part, const ConvertOptions& options);

}  // namespace shardmill::internal
