// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/dataset.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace shardmill::internal {

/// Where a run stands: what Loader::state() writes and Loader::resume() reads, as a JSON object.
struct SavedState {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  std::uint64_t cursor = 0;  ///< Global positions of the epoch that all ranks together have had.
  std::uint64_t lanes = 1;   ///< World size when the epoch was begun.
  std::string dataset;       ///< dataset_identity() of what was loaded.
  std::string options;       ///< EpochOrder::digest(), hexadecimal.

  std::string to_json() const;
  /// Throws kInvalidArgument unless `text` is what to_json() of this or an earlier version wrote.
  static SavedState from_json(std::string_view text);
};

/// Returns what tells these datasets, in this order, from others: 32 hexadecimal digits. The same
/// wherever the files lie; different if a shard has another name, size or number of samples, or
/// for raw files if any has. Costs a look at each shard's size.
std::string dataset_identity(std::span<const Dataset> datasets);

/// Returns `value` as 16 hexadecimal digits.
std::string hex(std::uint64_t value);

}  // namespace shardmill::internal
