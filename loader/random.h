// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/system/permutation.h>

#include <cstdint>

namespace shardmill {

/// A counter-based generator of random numbers whose whole state is a key made of (seed, epoch,
/// global position, stream): the same row gets the same numbers whichever worker makes it, how
/// often, and in what order, and a sample drawn twice in an epoch gets different ones.
///
/// The distributions are shardmill's own, because those of <random> differ between libraries. It
/// also serves as a uniform random bit generator. A value type; one thread at a time.
class Random {
 public:
  using result_type = std::uint64_t;

  constexpr Random(std::uint64_t seed, std::uint64_t epoch, std::uint64_t position,
                   std::uint64_t stream = 0) noexcept
      : key_(mix_bits(mix_bits(mix_bits(mix_bits(seed) ^ epoch) ^ position) ^ stream)) {}

  /// Returns the next 64 uniform random bits.
  constexpr std::uint64_t operator()() noexcept { return mix_bits(key_ ^ mix_bits(counter_++)); }
  /// Returns a uniform integer in [0, bound). REQUIRES: bound > 0.
  constexpr std::uint64_t below(std::uint64_t bound) noexcept {
    // The high half of a 128-bit product; the bias is below bound / 2^64.
    return static_cast<std::uint64_t>(static_cast<Wide>((*this)()) * bound >> 64);
  }
  /// Returns a uniform number in [0, 1) with 53 random bits.
  constexpr double uniform() noexcept { return static_cast<double>((*this)() >> 11) * 0x1p-53; }
  constexpr double uniform(double low, double high) noexcept {
    return low + (high - low) * uniform();
  }

  static constexpr std::uint64_t min() noexcept { return 0; }
  static constexpr std::uint64_t max() noexcept { return ~std::uint64_t{0}; }

 private:
  __extension__ using Wide = unsigned __int128;
  std::uint64_t key_;
  std::uint64_t counter_ = 0;
};

}  // namespace shardmill
