// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace shardmill {

/// Returns `x` with its bits mixed (the finaliser of SplitMix64): a bijection on 64 bits.
constexpr std::uint64_t mix_bits(std::uint64_t x) noexcept {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// A keyed permutation of [0, n): an alternating Feistel network on the bits of n - 1, walked
/// until it lands below n (under two steps on average). O(1) memory, about 50 ns a value. The
/// order is part of what seeds promise, in loaders and in `convert --shuffle`: it never changes.
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

}  // namespace shardmill
