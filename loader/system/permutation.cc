// SPDX-License-Identifier: Apache-2.0
#include <shardmill/loader/system/permutation.h>

#include <algorithm>
#include <bit>

namespace shardmill {

namespace {

// The round function: two multiplications mix key and half; the caller takes middle bits.
std::uint64_t round_function(std::uint64_t key, std::uint64_t half) noexcept {
  std::uint64_t z = (half ^ key) * 0x9E3779B97F4A7C15;
  z ^= z >> 32;
  z = (z + key) * 0xD6E8FEB86659FD93;
  return (z ^ (z >> 32)) >> 20;
}

constexpr std::uint64_t low_bits(int bits) noexcept { return (std::uint64_t{1} << bits) - 1; }

}  // namespace

Permutation::Permutation(std::uint64_t n, std::uint64_t key) noexcept
    : n_(n), rounds_(n < kSmall ? kRoundsSmall : kRounds) {
  const int bits = std::max(2, static_cast<int>(std::bit_width(n > 0 ? n - 1 : 0)));
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
  for (std::size_t i = 0; i < keys_.size(); ++i) keys_[i] = mix_bits(mix_bits(key) + i);
}

std::uint64_t Permutation::once(std::uint64_t x) const noexcept {
  std::uint64_t left = x >> right_bits_;
  std::uint64_t right = x & low_bits(right_bits_);
  for (int i = 0; i < rounds_; i += 2) {
    left ^= round_function(keys_[static_cast<std::size_t>(i)], right) & low_bits(left_bits_);
    right ^= round_function(keys_[static_cast<std::size_t>(i) + 1], left) & low_bits(right_bits_);
  }
  return left << right_bits_ | right;
}

std::uint64_t Permutation::operator()(std::uint64_t x) const noexcept {
  do {
    x = once(x);
  } while (x >= n_);
  return x;
}

}  // namespace shardmill
