// SPDX-License-Identifier: Apache-2.0
#include "loader/decode/internal/jpeg_huffman.h"

#include <algorithm>

namespace shardmill::internal {

namespace {

constexpr std::uint32_t kMaxBits = 16;

constexpr std::uint32_t make_entry(std::int32_t value, std::uint32_t advance,
                                   std::uint32_t length) noexcept {
  return static_cast<std::uint32_t>(value) << 16 | advance << 8 | length;
}

constexpr std::uint32_t size_of(std::uint8_t symbol) noexcept { return symbol & 15U; }

// A code without bits to follow ends the block, but for the one that stands for 16 zeros.
constexpr std::uint32_t advance_of(std::uint8_t symbol, bool dc) noexcept {
  const std::uint32_t run = symbol >> 4;
  if (dc) return 1;
  return size_of(symbol) == 0 && run != 15 ? HuffmanTable::kEndOfBlock : run + 1;
}

constexpr std::int32_t extended(std::uint32_t bits, std::uint32_t size) noexcept {
  const auto value = static_cast<std::int32_t>(bits);
  const std::int32_t half = size == 0 ? 0 : 1 << (size - 1);
  return value < half ? value - 2 * half + 1 : value;
}

}  // namespace

bool HuffmanTable::assign(const std::uint8_t* counts, const std::uint8_t* symbols, bool dc,
                          int look_bits) {
  std::size_t total = 0;
  for (std::uint32_t length = 1; length <= kMaxBits; ++length) total += counts[length];
  if (total > symbols_.size()) return false;
  const bool again = valid_ && dc == dc_ &&
                     std::equal(counts + 1, counts + 17, counts_.begin() + 1) &&
                     std::equal(symbols, symbols + total, symbols_.begin());
  if (again && look_bits_ == kLookBits) return true;
  const auto bits = static_cast<std::uint32_t>(again ? kLookBits : look_bits);
  valid_ = can_skip_ = false;
  dc_ = dc;
  look_bits_ = bits;
  shift_ = 64 - bits;
  std::copy_n(counts, counts_.size(), counts_.begin());
  std::copy_n(symbols, total, symbols_.begin());
  std::fill_n(look_.begin(), std::size_t{1} << bits, kSlow);
  std::uint32_t code = 0;
  std::uint32_t place = 0;
  for (std::uint32_t length = 1; length <= kMaxBits; ++length, code <<= 1) {
    if (code + counts[length] > std::uint32_t{1} << length) return false;
    offsets_[length] = static_cast<std::int32_t>(place) - static_cast<std::int32_t>(code);
    for (std::uint32_t i = 0; i < counts[length]; ++i, ++code, ++place) {
      if (dc && symbols_[place] > 15) return false;
      if (length <= bits) fill(code, length, symbols_[place]);
    }
    limits_[length] = code << (kMaxBits - length);
  }
  limits_[17] = ~std::uint32_t{0};
  valid_ = true;
  return true;
}

void HuffmanTable::fill(std::uint32_t code, std::uint32_t length, std::uint8_t symbol) {
  const std::uint32_t free_bits = look_bits_ - length;
  const std::uint32_t size = size_of(symbol);
  const std::uint32_t advance = advance_of(symbol, dc_);
  std::uint32_t* const entries = &look_[code << free_bits];
  if (advance == kEndOfBlock) {
    std::fill_n(entries, std::size_t{1} << free_bits, make_entry(symbol >> 4, advance, length));
    return;
  }
  for (std::uint32_t rest = 0; rest < std::uint32_t{1} << free_bits; ++rest) {
    if (size > free_bits) {
      entries[rest] = make_entry(static_cast<std::int32_t>(size), advance, length | kSlow);
    } else {
      entries[rest] =
          make_entry(extended(rest >> (free_bits - size), size), advance, length + size);
    }
  }
}

void HuffmanTable::prepare_skipping() {
  if (can_skip_) return;
  const std::uint32_t entries = std::uint32_t{1} << look_bits_;
  for (std::uint32_t i = 0; i < entries; ++i) {
    std::uint32_t used = 0;
    std::uint32_t moved = 0;
    std::uint32_t ended = 0;
    while (ended == 0) {
      const std::uint32_t entry = look_[i << used & (entries - 1)];
      if ((entry & kSlow) != 0 || used + Entry::length(entry) > look_bits_) break;
      used += Entry::length(entry);
      if (Entry::advance(entry) == kEndOfBlock) {
        ended = 1;
      } else {
        moved += Entry::advance(entry);
      }
    }
    skip_[i] = make_entry(static_cast<std::int32_t>(ended), moved, used);
  }
  can_skip_ = true;
}

std::uint32_t HuffmanTable::find_long(std::uint64_t bits) const noexcept {
  const auto next = static_cast<std::uint32_t>(bits >> 48);
  std::uint32_t length = look_bits_ + 1;
  while (next >= limits_[length]) ++length;
  if (length > kMaxBits) return 0;
  const std::int32_t place =
      static_cast<std::int32_t>(next >> (kMaxBits - length)) + offsets_[length];
  const std::uint8_t symbol = symbols_[static_cast<std::size_t>(place) & 255];
  const std::uint32_t advance = advance_of(symbol, dc_);
  const std::uint32_t value = advance == kEndOfBlock ? symbol >> 4 : size_of(symbol);
  return make_entry(static_cast<std::int32_t>(value), advance, length | kSlow);
}

}  // namespace shardmill::internal
