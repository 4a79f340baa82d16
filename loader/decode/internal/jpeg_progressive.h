// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "loader/decode/internal/jpeg_huffman.h"
#include "loader/decode/internal/jpeg_scan.h"

namespace shardmill::internal {

/// What decode_progressive() needs beyond a Scan, whose `begin` is the file's first byte.
struct ProgressiveScans {
  std::uint32_t max_scans = 0;
  std::array<std::uint8_t, 3> ids{};  ///< Of the components.
  /// Blocks that hold samples, each way: those of scans with one component.
  std::array<std::uint32_t, 3> columns{}, rows{};
  /// Room for all blocks of all MCUs, zeroed: 64 coefficients each, in zigzag order, and a bit for
  /// each that is not zero.
  std::array<std::int16_t*, 3> coefficients{};
  std::array<std::uint64_t*, 3> masks{};
  HuffmanTable* tables = nullptr;  ///< Four of DC, then four of AC, to be made.
};

/// As decode_scan(), for a progressive JPEG. All scans are parsed, but for those of frequencies
/// that no component needs; all coefficients must have come in full precision.
bool decode_progressive(const Scan& scan, const ProgressiveScans& scans) noexcept;

}  // namespace shardmill::internal
