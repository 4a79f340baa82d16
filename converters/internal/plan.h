// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/convert.h>
#include <shardmill/loader/system/permutation.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "converters/internal/source_set.h"

namespace shardmill::internal {

/// Which samples of the sources are written, and in which order.
class SampleOrder {
 public:
  SampleOrder(std::uint64_t source_size, const ConvertOptions& options);
  std::uint64_t size() const noexcept { return size_; }
  /// Returns the number, in the sources, of the sample at `position`. REQUIRES: position < size().
  std::uint64_t operator()(std::uint64_t position) const noexcept {
    return in_source_order(rank(position));
  }
  /// The same samples unshuffled, and where among them the one at `position` stands.
  std::uint64_t in_source_order(std::uint64_t rank) const noexcept {
    return chosen_.empty() ? rank : chosen_[rank];
  }
  std::uint64_t rank(std::uint64_t position) const noexcept {
    return shuffle_ ? (*shuffle_)(position) : position;
  }

 private:
  std::uint64_t size_;
  std::vector<std::uint64_t> chosen_;  // ascending; empty: all samples
  std::optional<Permutation> shuffle_;
};

/// One shard that will be written: positions first … first + samples - 1 of the order.
struct PlannedShard {
  std::string url;
  std::uint64_t first = 0;
  std::uint64_t samples = 0;
};

/// Everything that is decided before the first byte is written.
struct ConvertPlan {
  SampleOrder order;
  std::vector<PlannedShard> shards;
  std::vector<FieldSpec> fields;  ///< As they will be written.
  std::string sample_order;       ///< Manifest::order.
  std::uint64_t source_bytes = 0;
};

/// Scans the sources once, in their own order, and plans the shards.
/// Tells the observer what the user should know before writing. Throws kDataLoss for keys that
/// are wrong or come twice.
ConvertPlan make_plan(const SourceSet& sources, const ConvertOptions& options,
                      const Observer& observer);

}  // namespace shardmill::internal
