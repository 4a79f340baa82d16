// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardmill::internal {

inline constexpr int kWeightBits = 14;  ///< The weights of one output sum to 1 << kWeightBits.

/// Writes out[i] = (sum over k of weights[k] * rows[k][i] + half) >> kWeightBits for i < width.
///
/// `count` is even, the weights are not negative and sum to 1 << kWeightBits. Rows may be read and
/// `out` written up to `width` rounded up to a multiple of 16.
using BlendRows = void (*)(const std::uint8_t* const* rows, const std::int16_t* weights,
                           std::size_t count, std::uint8_t* out, std::size_t width);

/// Works on every processor; what all others must equal bit for bit.
void blend_rows_portable(const std::uint8_t* const* rows, const std::int16_t* weights,
                         std::size_t count, std::uint8_t* out, std::size_t width);

/// Returns the fastest one for this processor.
BlendRows best_blend_rows() noexcept;

}  // namespace shardmill::internal
