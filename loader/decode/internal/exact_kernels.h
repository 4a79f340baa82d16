// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardmill::internal {

inline constexpr int kExactBits = 22;  ///< Fraction of the weights.

/// Which input samples make each output sample: `count[i]` of them from `first[i]` on, with the
/// weights from weights[i * per_output] on.
struct ExactTaps {
  const std::uint32_t* first;
  const std::uint32_t* count;
  const std::int32_t* weights;
  std::size_t per_output;
};

/// Weighted sums in Pillow's arithmetic: 32 bits, rounded once. Up to kBufferPadding bytes behind
/// what they work on may be read and written.
struct ExactKernels {
  /// Resizes one row of interleaved pixels of 3 or 4 bytes to `outputs` pixels.
  void (*columns_3)(const std::uint8_t* row, const ExactTaps& taps, std::size_t outputs,
                    std::uint8_t* out);
  void (*columns_4)(const std::uint8_t* row, const ExactTaps& taps, std::size_t outputs,
                    std::uint8_t* out);
  /// Sums `count` rows of `width` bytes, `stride` apart.
  void (*rows)(const std::uint8_t* first, std::size_t stride, const std::int32_t* weights,
               std::size_t count, std::size_t width, std::uint8_t* out);
};

/// Work on every processor; what all others must equal bit for bit.
const ExactKernels& portable_exact_kernels() noexcept;
/// Returns the fastest for this processor.
const ExactKernels& best_exact_kernels() noexcept;

}  // namespace shardmill::internal
