// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace shardmill::internal {

/// Element i of a sequence of bytes becomes byte * scale[i % kPattern] + bias[i % kPattern]: room
/// for 1, 3 or 4 channels in whole vectors.
inline constexpr std::size_t kPattern = 24;
struct Normalisation {
  std::array<float, kPattern> scale;
  std::array<float, kPattern> bias;
};

/// Kernels that turn bytes into numbers, all of them in one rounding of the product and one of the
/// sum, so that all processors get the same; half-precision numbers are rounded to even.
struct PixelKernels {
  /// Normalises `count` bytes.
  void (*to_float)(const std::uint8_t* in, std::size_t count, const Normalisation& by, float* out);
  void (*to_half)(const std::uint8_t* in, std::size_t count, const Normalisation& by,
                  std::uint16_t* out);
  /// Normalises `count` pixels of 4 bytes into one plane for each of the first `channels`.
  void (*split_float)(const std::uint8_t* in, std::size_t count, std::size_t channels,
                      const Normalisation& by, float* const* out);
  void (*split_half)(const std::uint8_t* in, std::size_t count, std::size_t channels,
                     const Normalisation& by, std::uint16_t* const* out);
};

/// Work on every processor; what all others must equal bit for bit.
const PixelKernels& portable_pixel_kernels() noexcept;
/// Returns the fastest for this processor.
const PixelKernels& best_pixel_kernels() noexcept;

/// Returns the nearest half-precision number, as its bits.
std::uint16_t half_of(float value) noexcept;

}  // namespace shardmill::internal
