// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace shardmill::internal {

/// A seeded permutation of 0 … size-1 that needs no table: an unbalanced Feistel network over the
/// next power of two, walked until the value is below `size`. The order is part of what
/// `convert --shuffle SEED` promises (docs/converting.md): never change it.
class SourcePermutation {
 public:
  SourcePermutation(std::uint64_t size, std::uint64_t seed) noexcept;

  /// Returns which element stands at `position`. REQUIRES: position < size.
  std::uint64_t operator()(std::uint64_t position) const noexcept;

 private:
  static constexpr int kRounds = 8;
  std::uint64_t once(std::uint64_t value) const noexcept;

  std::uint64_t size_;
  unsigned left_bits_;
  unsigned right_bits_;
  std::array<std::uint64_t, kRounds> keys_;
};

}  // namespace shardmill::internal
