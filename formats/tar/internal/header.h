// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardmill::tar {

inline constexpr std::uint64_t kBlock = 512;

/// Rounds up to whole blocks. REQUIRES: size < 2^63.
constexpr std::uint64_t padded(std::uint64_t size) noexcept {
  return (size + kBlock - 1) / kBlock * kBlock;
}

/// True if all bytes are zero.
bool is_zero(Bytes bytes) noexcept;

/// True if the checksum stored in a header block fits its bytes (summed unsigned, or signed as
/// some old programs did).
bool checksum_fits(Bytes block) noexcept;

/// Parses a number field: octal text, or base-256. Nothing if malformed, negative or >= 2^63.
std::optional<std::uint64_t> parse_number(std::string_view field) noexcept;

/// Names the dialect-dependent parts of one header block. REQUIRES: block.size() == kBlock.
class HeaderView {
 public:
  explicit HeaderView(Bytes block) noexcept : text_(as_text(block)) {}

  bool valid() const noexcept { return checksum_fits(as_bytes(text_)); }
  char type() const noexcept { return text_[156]; }
  std::optional<std::uint64_t> size() const noexcept { return parse_number(text_.substr(124, 12)); }
  std::string_view name() const noexcept { return until_nul(0, 100); }
  /// What stands in front of the name, without the slash between; may be empty.
  std::string_view prefix() const noexcept;
  /// GNU sparse ('S'): the size of the file when expanded, and whether map blocks follow.
  std::optional<std::uint64_t> sparse_size() const noexcept {
    return parse_number(text_.substr(483, 12));
  }
  bool sparse_extended() const noexcept { return text_[482] != '\0'; }

 private:
  std::string_view until_nul(std::size_t at, std::size_t length) const noexcept;
  std::string_view text_;
};

/// Returns a 32-bit hash of a header block, by which readers notice that it is not the block
/// they indexed.
std::uint32_t header_hash(Bytes block) noexcept;

/// Appends to `out` the header block, or blocks, of a regular file: ustar, preceded by a pax
/// header if the name or size does not fit. Owner 0, mode 0644, time 0.
void append_header(std::string& out, std::string_view name, std::uint64_t size);

}  // namespace shardmill::tar
