// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardmill::internal {

inline constexpr int kDctFraction = 3;  ///< Coefficients are multiplied by 1 << kDctFraction.

/// Where the coefficient of zigzag position k lies in a block: columns first.
extern const std::uint8_t kBlockOrder[64];

/// Transforms two blocks of 64 coefficients, one after the other in `blocks`, into `size` × `size`
/// samples each, side by side in `out`. Sums that no undamaged image has saturate.
using InverseDct = void (*)(const std::int16_t* blocks, std::uint8_t* out, std::size_t stride);

/// Transforms to sizes 8 and 4.
struct Transforms {
  InverseDct to_8, to_4;
  bool fast;  ///< They use vector instructions.
};
/// Work on every processor; what all others must equal bit for bit.
const Transforms& portable_transforms() noexcept;
/// Returns the fastest for this processor.
const Transforms& best_transforms() noexcept;

/// Sizes 2 and 1.
void inverse_dct_2(const std::int16_t* blocks, std::uint8_t* out, std::size_t stride);
void inverse_dct_1(const std::int16_t* blocks, std::uint8_t* out, std::size_t stride);

}  // namespace shardmill::internal
