// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/permutation.h"

#include <bit>

namespace shardmill::internal {

namespace {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9;
  x ^= x >> 27;
  x *= 0x94D049BB133111EB;
  return x ^ x >> 31;
}

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;

}  // namespace

SourcePermutation::SourcePermutation(std::uint64_t size, std::uint64_t seed) noexcept
    : size_(size) {
  const unsigned bits = size <= 4 ? 2 : static_cast<unsigned>(std::bit_width(size - 1));
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
  std::uint64_t state = mix(seed + kGolden);
  for (std::uint64_t& key : keys_) key = mix(state += kGolden);
}

std::uint64_t SourcePermutation::once(std::uint64_t value) const noexcept {
  const std::uint64_t left_mask = (std::uint64_t{1} << left_bits_) - 1;
  const std::uint64_t right_mask = (std::uint64_t{1} << right_bits_) - 1;
  std::uint64_t left = value >> right_bits_;
  std::uint64_t right = value & right_mask;
  for (int round = 0; round < kRounds; round += 2) {
    left ^= mix(right + keys_[static_cast<std::size_t>(round)]) >> 16 & left_mask;
    right ^= mix(left + keys_[static_cast<std::size_t>(round) + 1]) >> 16 & right_mask;
  }
  return left << right_bits_ | right;
}

std::uint64_t SourcePermutation::operator()(std::uint64_t position) const noexcept {
  // The values outside form cycles with the ones inside, so the walk ends; it takes fewer than
  // two steps on average, as more than half of the values lie inside.
  do {
    position = once(position);
  } while (position >= size_);
  return position;
}

}  // namespace shardmill::internal
