// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/options.h>
#include <shardmill/loader/system/permutation.h>

#include <cstdint>

namespace shardmill::internal {

/// Which sample stands at which global position of an epoch: a function of (seed, epoch, position).
class EpochOrder {
 public:
  EpochOrder(Shuffle shuffle, std::uint64_t samples, std::uint64_t seed,
             std::uint64_t epoch) noexcept;
  std::uint64_t sample(std::uint64_t position) const noexcept {
    return shuffle_ == Shuffle::kNone ? position : permutation_(position);
  }

 private:
  Shuffle shuffle_;
  Permutation permutation_;
};

}  // namespace shardmill::internal
