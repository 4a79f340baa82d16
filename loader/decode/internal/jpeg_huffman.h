// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace shardmill::internal {

/// A Huffman table of a baseline JPEG, made for few steps per coefficient: one look at the next
/// bits tells code, value and length together where they are short, which most are.
class HuffmanTable {
 public:
  static constexpr int kLookBits = 11;               ///< At most so many bits are looked at.
  static constexpr std::uint32_t kEndOfBlock = 128;  ///< Advance of the code that ends a block.
  static constexpr std::uint32_t kSlow = 0x80;       ///< Bit of an entry that tells not enough.

  /// What the next bits mean. Length: how many they are; of a slow entry that of the code, whose
  /// value field is the number of bits to follow; a slow entry without advance is a long code. Of
  /// one that ends the block the value is the run: in progressive JPEGs it ends that many more.
  struct Entry {
    static std::uint32_t length(std::uint32_t entry) noexcept { return entry & 0x7f; }
    /// How far the position in the block moves on.
    static std::uint32_t advance(std::uint32_t entry) noexcept { return (entry >> 8) & 0xff; }
    static std::int32_t value(std::uint32_t entry) noexcept {
      return static_cast<std::int32_t>(entry) >> 16;
    }
  };

  /// Takes a table as a DHT segment has it: `counts[n]` codes of n bits (1 to 16), and their
  /// symbols. False if no such code exists. It is made for looks at `look_bits` (8 to kLookBits):
  /// more take longer to make, which small scans do not win back. A table that comes again, as the
  /// standard's do, is made once more for kLookBits, and then kept.
  bool assign(const std::uint8_t* counts, const std::uint8_t* symbols, bool dc, int look_bits);
  /// Makes what skip() needs.
  void prepare_skipping();

  std::uint32_t look(std::uint64_t bits) const noexcept { return look_[bits >> shift_]; }
  /// As look(), but of all codes that fit: their length and advance together, without that of a
  /// code that ends the block; the value is then 1. 0: not even one fits.
  std::uint32_t skip(std::uint64_t bits) const noexcept { return skip_[bits >> shift_]; }
  /// Returns the slow entry of a code longer than a look; 0 if there is no such code.
  std::uint32_t find_long(std::uint64_t bits) const noexcept;

 private:
  static constexpr std::size_t kEntries = std::size_t{1} << kLookBits;

  void fill(std::uint32_t code, std::uint32_t length, std::uint8_t symbol);

  std::array<std::uint32_t, kEntries> look_{};
  std::array<std::uint32_t, kEntries> skip_{};
  std::array<std::uint32_t, 18> limits_{};  // first 16 bits beyond the codes of each length
  std::array<std::int32_t, 17> offsets_{};  // from a code of that length to its symbol's place
  std::array<std::uint8_t, 17> counts_{};
  std::array<std::uint8_t, 256> symbols_{};
  std::uint32_t look_bits_ = kLookBits;
  std::uint32_t shift_ = 64 - kLookBits;
  bool dc_ = false;
  bool valid_ = false;
  bool can_skip_ = false;
};

}  // namespace shardmill::internal
