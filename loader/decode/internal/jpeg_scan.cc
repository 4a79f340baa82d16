// SPDX-License-Identifier: Apache-2.0
#include "loader/decode/internal/jpeg_scan.h"

#include <cstring>

#include "loader/decode/internal/inverse_dct.h"
#include "loader/decode/internal/jpeg_bits.h"

namespace shardmill::internal {

namespace {

using namespace jpeg;
using Entry = HuffmanTable::Entry;

constexpr std::uint32_t kGroup = 8;            // MCUs that are parsed before they are transformed
constexpr std::uint32_t kMaxBlocksOfMcu = 10;  // of any baseline JPEG
constexpr std::uint32_t kLast = 63;

// Passes over the rest of a block whose coefficients up to `k` were read.
SHARDMILL_INLINE bool skip_rest(JpegBits& in, const HuffmanTable& ac, std::uint32_t k) {
  while (k < kLast) {
    refill(in);
    for (int i = 0; i < kSteps; ++i) {
      const std::uint32_t several = ac.skip(in.bits);
      const std::uint32_t reached = k + Entry::advance(several);
      if (several != 0 && reached < kLast) [[likely]] {
        drop(in, Entry::length(several));
        if (Entry::value(several) != 0) return true;
        k = reached;
        continue;
      }
      const std::uint32_t entry = next_entry(in, ac);
      if (entry == 0) [[unlikely]]
        return false;
      k += Entry::advance(entry);
      if (k >= kLast) return k == kLast || k >= HuffmanTable::kEndOfBlock;
    }
  }
  return true;
}

// Reads the coefficients after the mean, which was read just before, up to position `limit`; those
// beyond may be missing. `k` becomes the last position that was looked at.
SHARDMILL_INLINE bool read_coefficients(JpegBits& in, const ScanComponent& component,
                                        std::uint32_t limit, std::int16_t* block,
                                        std::uint32_t& k) {
  const HuffmanTable& ac = *component.ac;
  k = 0;
  int steps = kSteps - 1;  // the mean took the first
  while (true) {
    do {
      const std::uint32_t entry = next_entry(in, ac);
      if (entry == 0) [[unlikely]]
        return false;
      const std::uint32_t before = k;
      k += Entry::advance(entry);
      if (k >= limit) {
        if (k >= HuffmanTable::kEndOfBlock) {
          k = before;
          return true;
        }
        if (k > kLast) return false;
        block[kBlockOrder[k]] = static_cast<std::int16_t>(Entry::value(entry) * component.steps[k]);
        return limit == kLast || skip_rest(in, ac, k);
      }
      block[kBlockOrder[k]] = static_cast<std::int16_t>(Entry::value(entry) * component.steps[k]);
    } while (--steps > 0);
    refill(in);
    steps = kSteps;
  }
}

SHARDMILL_INLINE bool read_dc(JpegBits& in, const ScanComponent& component,
                              std::uint32_t& predicted) {
  refill(in);
  const std::uint32_t entry = next_entry(in, *component.dc);
  predicted += static_cast<std::uint32_t>(Entry::value(entry));
  return entry != 0;
}

// Coefficients of a group of MCUs, one block row of a component after the other.
struct Group {
  alignas(32) std::int16_t blocks[kGroup * kMaxBlocksOfMcu + 1][64];
  bool flat[kGroup * kMaxBlocksOfMcu + 1];  // nothing but the mean
  std::uint32_t count;                      // of MCUs
};

struct Output {
  std::uint32_t first_block;  // in a group
  std::uint32_t limit;        // the last position that matters, in zigzag order
  InverseDct transform;
};

SHARDMILL_INLINE bool read_block(JpegBits& in, const ScanComponent& component, const Output& output,
                                 std::uint32_t& predicted, std::int16_t* block, bool& flat) {
  if (!read_dc(in, component, predicted)) [[unlikely]]
    return false;
  std::memset(block, 0, 64 * sizeof(*block));
  block[0] = static_cast<std::int16_t>(static_cast<std::int16_t>(predicted) * component.steps[0]);
  if (output.limit == 0) {
    flat = true;
    return skip_rest(in, *component.ac, 0);
  }
  std::uint32_t k = 0;
  const bool good = read_coefficients(in, component, output.limit, block, k);
  flat = k == 0;
  return good;
}

void fill_block(const std::int16_t* block, std::uint8_t* out, std::size_t stride,
                std::uint32_t size) {
  std::uint8_t values[2];
  std::int16_t pair[128];
  pair[0] = pair[64] = block[0];
  inverse_dct_1(pair, values, 0);
  for (std::uint32_t y = 0; y < size; ++y) std::memset(out + y * stride, values[0], size);
}

// Turns a group's coefficients into samples of the MCU row that begins at `row`, from column
// `column` of the needed ones on.
void transform_group(const Scan& scan, const Output* outputs, const Group& group, std::uint32_t row,
                     std::uint32_t column) {
  for (std::size_t c = 0; c < scan.count; ++c) {
    const ScanComponent& component = scan.components[c];
    if (!component.needed) continue;
    const std::uint32_t size = component.size;
    for (std::uint32_t y = 0; y < component.down; ++y) {
      std::uint8_t* out = component.out +
                          (std::size_t{row} * component.down + y) * size * component.stride +
                          std::size_t{column} * component.across * size;
      std::uint32_t number = outputs[c].first_block + y * component.across * kGroup;
      const std::uint32_t end = number + group.count * component.across;
      for (; number < end; number += 2, out += std::size_t{2} * size) {
        if (group.flat[number] && group.flat[number + 1]) {
          fill_block(group.blocks[number], out, component.stride, size);
          fill_block(group.blocks[number + 1], out + size, component.stride, size);
        } else {
          outputs[c].transform(group.blocks[number], out, component.stride);
        }
      }
    }
  }
}

SHARDMILL_INLINE bool skip_blocks(JpegBits& in, const ScanComponent& component,
                                  std::uint32_t& predicted) {
  for (std::uint32_t i = 0; i < component.across * component.down; ++i) {
    if (!read_dc(in, component, predicted) || !skip_rest(in, *component.ac, 0)) return false;
  }
  return true;
}

SHARDMILL_INLINE bool skip_mcu(JpegBits& in, const Scan& scan, std::uint32_t* predicted) {
  for (std::size_t c = 0; c < scan.count; ++c) {
    if (!skip_blocks(in, scan.components[c], predicted[c])) return false;
  }
  return true;
}

SHARDMILL_INLINE bool read_mcu(JpegBits& in, const Scan& scan, const Output* outputs,
                               std::uint32_t* predicted, Group& group) {
  for (std::size_t c = 0; c < scan.count; ++c) {
    const ScanComponent& component = scan.components[c];
    for (std::uint32_t y = 0; y < component.down; ++y) {
      std::uint32_t number = outputs[c].first_block + (y * kGroup + group.count) * component.across;
      for (std::uint32_t x = 0; x < component.across; ++x, ++number) {
        if (!read_block(in, component, outputs[c], predicted[c], group.blocks[number],
                        group.flat[number])) {
          return false;
        }
      }
    }
  }
  ++group.count;
  return true;
}

SHARDMILL_INLINE bool decode(const Scan& scan, const Output* outputs) {
  JpegBits in{scan.begin, scan.end};
  Group group{};
  std::uint32_t predicted[3] = {};
  std::uint32_t until_restart = scan.restart_interval;
  std::uint8_t restarts = 0;
  for (std::uint32_t row = 0; row < scan.last_row; ++row) {
    for (std::uint32_t column = 0; column < scan.columns; ++column) {
      if (scan.restart_interval != 0 && until_restart-- == 0) {
        if (!at_marker(in, kRestart0 + restarts)) return false;
        restarts = (restarts + 1) & 7;
        predicted[0] = predicted[1] = predicted[2] = 0;
        until_restart = scan.restart_interval - 1;
      }
      if (row < scan.first_row || column < scan.first_column || column >= scan.last_column) {
        if (!skip_mcu(in, scan, predicted)) return false;
        continue;
      }
      if (!read_mcu(in, scan, outputs, predicted, group)) return false;
      if (group.count == kGroup || column + 1 == scan.last_column) {
        transform_group(scan, outputs, group, row - scan.first_row,
                        column + 1 - group.count - scan.first_column);
        group.count = 0;
      }
    }
    if (in.made_up > in.count) return false;  // beyond a marker
  }
  return scan.last_row < scan.rows || at_marker(in, kEndOfImage);
}

#if defined(__x86_64__)
__attribute__((target("avx2,bmi,bmi2"))) bool decode_avx2(const Scan& scan, const Output* outputs) {
  return decode(scan, outputs);
}
#endif

[[gnu::noinline]] bool decode_plain(const Scan& scan, const Output* outputs) {
  return decode(scan, outputs);
}

bool decode_with(const Scan& scan, const Transforms& transforms) noexcept {
  Output outputs[3];
  std::uint32_t blocks = 0;
  for (std::size_t c = 0; c < scan.count; ++c) {
    const ScanComponent& component = scan.components[c];
    outputs[c].first_block = blocks * kGroup;
    blocks += component.across * component.down;
    switch (component.size) {
      case 8:
        outputs[c].limit = kLast;
        outputs[c].transform = transforms.to_8;
        break;
      case 4:
        outputs[c].limit = 24;  // where frequencies 3 and 3 stand
        outputs[c].transform = transforms.to_4;
        break;
      case 2:
        outputs[c].limit = 4;  // 1 and 1
        outputs[c].transform = inverse_dct_2;
        break;
      default:
        outputs[c].limit = 0;
        outputs[c].transform = inverse_dct_1;
        break;
    }
  }
  if (blocks > kMaxBlocksOfMcu) return false;
#if defined(__x86_64__)
  static const bool has_all =
      __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("bmi2") != 0;
  if (transforms.fast && has_all) return decode_avx2(scan, outputs);
#endif
  return decode_plain(scan, outputs);
}

}  // namespace

bool decode_scan(const Scan& scan) noexcept { return decode_with(scan, best_transforms()); }

bool decode_scan_portable(const Scan& scan) noexcept {
  return decode_with(scan, portable_transforms());
}

}  // namespace shardmill::internal
