// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/options.h>

#include <array>
#include <cstdint>

namespace shardmill::internal {

/// A keyed permutation of [0, n): an alternating Feistel network on the bits of n - 1, walked
/// until it lands below n (under two steps on average). O(1) memory, about 50 ns a value.
class Permutation {
 public:
  Permutation(std::uint64_t n, std::uint64_t key) noexcept;
  /// REQUIRES: x < n.
  std::uint64_t operator()(std::uint64_t x) const noexcept;

 private:
  // Fewer than 8 rounds are measurably biased; so are 8 where there are few bits to mix.
  static constexpr int kRounds = 8;
  static constexpr int kRoundsSmall = 32;
  static constexpr std::uint64_t kSmall = 256;

  std::uint64_t once(std::uint64_t x) const noexcept;

  std::uint64_t n_;
  int left_bits_;
  int right_bits_;
  int rounds_;
  std::array<std::uint64_t, kRoundsSmall> keys_;
};

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
