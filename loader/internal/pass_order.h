// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/options.h>
#include <shardmill/loader/system/permutation.h>

#include <cstdint>
#include <vector>

namespace shardmill::internal {

/// How a pass is shuffled; nothing left open.
struct ShuffleSettings {
  Shuffle shuffle = Shuffle::kNone;
  std::uint64_t block_size = 1;    ///< kBlock: neighbouring items in a block.
  std::uint64_t block_window = 1;  ///< kBlock: blocks of a lane that are mixed.
};

/// One pass over `items` things: which of them stands at which position. A function of the
/// constructor's arguments, in O(1) memory; every item stands at exactly one position.
///
/// kBlock: the blocks of neighbouring items come in random order (a short block last). Windows of
/// lanes × window blocks follow each other; lane l owns `block_window` blocks of each, position p
/// belongs to lane p mod lanes, and items are mixed inside lane and window. So a rank that takes
/// every lanes-th position reads its own blocks alone. The last one to two windows' worth are
/// mixed over all lanes.
///
/// One thread at a time; cheapest when positions come in ascending order.
class PassOrder {
 public:
  PassOrder(const ShuffleSettings& settings, std::uint64_t items, std::uint64_t key,
            std::uint64_t lanes = 1);
  /// REQUIRES: position < items.
  std::uint64_t operator()(std::uint64_t position) const;

 private:
  std::uint64_t in_window(std::uint64_t position) const;
  std::uint64_t block(std::uint64_t place) const noexcept;

  ShuffleSettings settings_;
  std::uint64_t items_;
  std::uint64_t key_;
  std::uint64_t lanes_;
  std::uint64_t blocks_ = 0;
  std::uint64_t span_ = 0;                            // positions of a window
  std::uint64_t full_windows_ = 0;                    // those in front of the last
  Permutation permutation_;                           // kFull: of the items; kBlock: of the blocks
  mutable std::uint64_t window_ = ~std::uint64_t{0};  // whose lanes are these
  mutable std::vector<Permutation> window_lanes_;
};

}  // namespace shardmill::internal
