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

/// Sizes 8 and 4, on every processor; what the others must equal bit for bit.
void inverse_dct_8_portable(const std::int16_t* blocks, std::uint8_t* out, std::size_t stride);
void inverse_dct_4_portable(const std::int16_t* blocks, std::uint8_t* out, std::size_t stride);

#if defined(__x86_64__)
void inverse_dct_8_avx2(const std::int16_t* blocks, std::uint8_t* out, std::size_t stride);
void inverse_dct_4_avx2(const std::int16_t* blocks, std::uint8_t* out, std::size_t stride);
#endif

/// Sizes 2 and 1.
void inverse_dct_2(const std::int16_t* blocks, std::uint8_t* out, std::size_t stride);
void inverse_dct_1(const std::int16_t* blocks, std::uint8_t* out, std::size_t stride);

/// True if this processor has what the functions for AVX2 need.
bool has_avx2() noexcept;

}  // namespace shardmill::internal
