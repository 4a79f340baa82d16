// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "loader/decode/internal/jpeg_huffman.h"

// Inlined into one function per kind of processor.
#define SHARDMILL_INLINE inline __attribute__((always_inline))

namespace shardmill::internal::jpeg {

inline constexpr std::uint8_t kMarker = 0xff;
inline constexpr std::uint8_t kRestart0 = 0xd0;
inline constexpr std::uint8_t kEndOfImage = 0xd9;
/// Short codes that one refill is enough for.
inline constexpr int kSteps = 56 / HuffmanTable::kLookBits;

// The bits of a scan without its stuffing, the next one on top.
struct JpegBits {
  const std::uint8_t* at;
  const std::uint8_t* end;
  std::uint64_t bits = 0;
  std::uint32_t count = 0;    // of bits that are known
  std::uint64_t made_up = 0;  // zeros that stand for what lies beyond a marker or the end
};

SHARDMILL_INLINE std::uint64_t load_big_endian(const std::uint8_t* at) {
  std::uint64_t value = 0;
  std::memcpy(&value, at, sizeof(value));
  if constexpr (std::endian::native == std::endian::little) value = __builtin_bswap64(value);
  return value;
}

[[gnu::noinline]] inline void refill_bytewise(JpegBits& in) {
  while (in.count < 56) {
    std::uint64_t byte = 0;
    if (in.at == in.end) {
      in.made_up += 8;
    } else if (*in.at != kMarker) {
      byte = *in.at++;
    } else if (in.end - in.at > 1 && in.at[1] == 0) {
      byte = kMarker;
      in.at += 2;
    } else {
      in.made_up += 8;
    }
    in.bits |= byte << (56 - in.count);
    in.count += 8;
  }
}

// At least 56 bits are known afterwards. What lies below them is zero or what comes next.
SHARDMILL_INLINE void refill(JpegBits& in) {
  if (in.end - in.at >= 8) [[likely]] {
    const std::uint64_t next = load_big_endian(in.at);
    const bool has_marker = ((~next - 0x0101010101010101) & next & 0x8080808080808080) != 0;
    if (!has_marker) [[likely]] {
      in.bits |= next >> in.count;
      in.at += (63 - in.count) >> 3;
      in.count |= 56;
      return;
    }
  }
  // By value, so that the reader itself can stay in registers.
  JpegBits copy = in;
  refill_bytewise(copy);
  in = copy;
}

SHARDMILL_INLINE void drop(JpegBits& in, std::uint32_t bits) {
  in.bits <<= bits;
  in.count -= bits;
}

// Resolves an entry that tells not enough: consumes all of its bits and returns one with value and
// advance; 0 for a code that does not exist. Leaves at least 56 bits.
[[gnu::noinline]] inline std::uint32_t resolve_in(JpegBits& in, const HuffmanTable& table,
                                                  std::uint32_t entry) {
  refill(in);
  if (HuffmanTable::Entry::advance(entry) == 0) {
    entry = table.find_long(in.bits);
    if (entry == 0) return 0;
  }
  drop(in, HuffmanTable::Entry::length(entry));
  std::int32_t value = HuffmanTable::Entry::value(entry);
  const bool ends = HuffmanTable::Entry::advance(entry) == HuffmanTable::kEndOfBlock;
  const auto size = static_cast<std::uint32_t>(value);
  if (size > 0 && !ends) {
    value = static_cast<std::int32_t>(in.bits >> (64 - size));
    if (value < 1 << (size - 1)) value -= (1 << size) - 1;
    drop(in, size);
  }
  refill(in);
  return static_cast<std::uint32_t>(value) << 16 | HuffmanTable::Entry::advance(entry) << 8;
}

SHARDMILL_INLINE std::uint32_t resolve(JpegBits& in, const HuffmanTable& table,
                                       std::uint32_t entry) {
  JpegBits copy = in;
  entry = resolve_in(copy, table, entry);
  in = copy;
  return entry;
}

// The next code and its value. REQUIRES: kLookBits bits.
SHARDMILL_INLINE std::uint32_t next_entry(JpegBits& in, const HuffmanTable& table) {
  const std::uint32_t entry = table.look(in.bits);
  if ((entry & HuffmanTable::kSlow) != 0) [[unlikely]] {
    return resolve(in, table, entry);
  }
  drop(in, HuffmanTable::Entry::length(entry));
  return entry;
}

// A marker must follow what was read, and nothing else.
inline bool at_marker(JpegBits& in, std::uint8_t marker) noexcept {
  if (in.made_up > in.count || in.count - in.made_up >= 8) return false;
  while (in.end - in.at > 2 && in.at[0] == kMarker && in.at[1] == kMarker) ++in.at;
  if (in.end - in.at < 2 || in.at[0] != kMarker || in.at[1] != marker) return false;
  in.at += 2;
  in.bits = in.count = 0;
  in.made_up = 0;
  return true;
}

}  // namespace shardmill::internal::jpeg
