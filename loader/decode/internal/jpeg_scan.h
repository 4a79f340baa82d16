// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "loader/decode/internal/jpeg_huffman.h"

namespace shardmill::internal {

/// One component of a baseline scan and where its samples go.
struct ScanComponent {
  std::uint32_t across = 1;  ///< Blocks of an MCU, side by side.
  std::uint32_t down = 1;    ///< Blocks of an MCU, one below the other.
  std::uint32_t size = 8;    ///< Samples that a block becomes, each way: 1, 2, 4 or 8.
  bool needed = true;        ///< False: it is only parsed.
  const HuffmanTable* dc = nullptr;
  const HuffmanTable* ac = nullptr;
  std::array<std::int32_t, 64> steps{};  ///< 8 × quantisation, in zigzag order.
  /// The first needed MCU's samples. Rows hold whole blocks, an even number of them.
  std::uint8_t* out = nullptr;
  std::size_t stride = 0;
};

/// A baseline scan with all components of its image, and the MCUs of it that are needed.
struct Scan {
  std::array<ScanComponent, 3> components;
  std::size_t count = 0;
  const std::uint8_t* begin = nullptr;  ///< First byte after the scan's header.
  const std::uint8_t* end = nullptr;    ///< End of the file.
  std::uint32_t columns = 0;            ///< MCUs in a row.
  std::uint32_t rows = 0;
  std::uint32_t restart_interval = 0;  ///< MCUs; 0: none.
  /// Needed MCUs: from `first` up to `last`, which is not empty.
  std::uint32_t first_column = 0, last_column = 0, first_row = 0, last_row = 0;
};

/// Decodes what is needed of a scan, parsing the rest up to there as fast as can be.
///
/// False if anything is not as an undamaged file has it: libjpeg then has to say what. Safe with
/// any input. Differs from libjpeg's accurate transform by rounding; reduced blocks are made of
/// their low frequencies alone.
bool decode_scan(const Scan& scan) noexcept;

/// As decode_scan() without instructions that only some processors have; same samples.
bool decode_scan_portable(const Scan& scan) noexcept;

}  // namespace shardmill::internal
