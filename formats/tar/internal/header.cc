// SPDX-License-Identifier: Apache-2.0
#include "formats/tar/internal/header.h"

#include <shardmill/formats/error.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace shardmill::tar {

namespace {

constexpr std::size_t kNameBytes = 100;
constexpr std::size_t kPrefixBytes = 155;
constexpr std::size_t kStarPrefixBytes = 131;
constexpr std::size_t kChecksumAt = 148;
constexpr std::size_t kChecksumBytes = 8;
constexpr std::uint64_t kMaxOctalSize = 077777777777;  // eleven digits

// Copies `text` to its place in a block.
void put(char* block, std::size_t at, std::string_view text) {
  std::copy(text.begin(), text.end(), block + at);
}

// Writes `value` as `digits` octal digits.
void put_octal(char* block, std::size_t at, std::size_t digits, std::uint64_t value) {
  for (std::size_t i = digits; i-- > 0; value >>= 3) {
    block[at + i] = static_cast<char>('0' + (value & 7));
  }
}

struct SplitName {
  std::string_view prefix;
  std::string_view name;
  bool fits = false;
};

// Splits a long name at a slash so that both parts fit; the prefix is as short as possible.
SplitName split_name(std::string_view name) {
  if (name.size() <= kNameBytes) return {{}, name, true};
  const std::size_t first = name.size() - kNameBytes - 1;
  const std::size_t slash = name.find('/', std::max<std::size_t>(first, 1));
  if (slash == std::string_view::npos || slash > kPrefixBytes || slash + 1 == name.size()) {
    return {{}, name.substr(0, kNameBytes), false};
  }
  return {name.substr(0, slash), name.substr(slash + 1), true};
}

void append_block(std::string& out, const SplitName& name, char type, std::uint64_t size) {
  char block[kBlock] = {};
  put(block, 0, name.name);
  put(block, 100, "0000644");
  put(block, 108, "0000000");
  put(block, 116, "0000000");
  put_octal(block, 124, 11, size);
  put(block, 136, "00000000000");
  put(block, kChecksumAt, "        ");
  block[156] = type;
  put(block, 257, std::string_view("ustar\00000", 8));
  put(block, 345, name.prefix);
  std::uint64_t sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put_octal(block, kChecksumAt, 6, sum);
  block[kChecksumAt + 6] = '\0';
  out.append(block, kBlock);
}

// Returns `LENGTH key=value\n`, where LENGTH counts its own digits too.
std::string pax_record(std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t length = rest + std::to_string(rest).size();
  length = rest + std::to_string(length).size();
  return std::to_string(length) + " " + std::string(key) + "=" + std::string(value) + "\n";
}

}  // namespace

bool is_zero(Bytes bytes) noexcept {
  // The first byte, and every byte equal to the one before it.
  return bytes.empty() || (bytes[0] == std::byte{0} &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

bool checksum_fits(Bytes block) noexcept {
  const std::string_view text = as_text(block);
  const auto stored = parse_number(text.substr(kChecksumAt, kChecksumBytes));
  if (!stored) return false;
  std::uint32_t all = 0;
  std::uint32_t high = 0;  // bytes above 127: a signed sum counts each 256 less
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    all += byte;
    high += byte >> 7;
  }
  std::uint32_t field = 0;
  std::uint32_t field_high = 0;
  for (const char c : text.substr(kChecksumAt, kChecksumBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    field += byte;
    field_high += byte >> 7;
  }
  const std::uint32_t sum = all - field + kChecksumBytes * ' ';
  return *stored == sum || *stored + 256 * (high - field_high) == sum;
}

std::optional<std::uint64_t> parse_number(std::string_view field) noexcept {
  const auto first = static_cast<unsigned char>(field[0]);
  if (first == 0x80 || first == 0xFF) {
    if (first == 0xFF) return std::nullopt;  // negative
    std::uint64_t value = 0;
    for (const char c : field.substr(1)) {
      if (value >> 55 != 0) return std::nullopt;
      value = value << 8 | static_cast<unsigned char>(c);
    }
    return value;
  }
  std::size_t at = 0;
  while (at < field.size() && field[at] == ' ') ++at;
  std::uint64_t value = 0;
  for (; at < field.size() && field[at] >= '0' && field[at] <= '7'; ++at) {
    value = value << 3 | static_cast<std::uint64_t>(field[at] - '0');  // 12 digits: 36 bits
  }
  if (at < field.size() && field[at] != ' ' && field[at] != '\0') return std::nullopt;
  return value;
}

std::string_view HeaderView::until_nul(std::size_t at, std::size_t length) const noexcept {
  const std::string_view field = text_.substr(at, length);
  return field.substr(0, field.find('\0'));
}

std::string_view HeaderView::prefix() const noexcept {
  // As Python's tarfile, and so WebDataset: whatever the dialect, except in GNU's own types. Star
  // keeps times behind a shorter prefix.
  if (type() == 'S' || type() == 'L' || type() == 'K') return {};
  const bool star = text_.substr(508, 4) == std::string_view("tar\0", 4);
  return until_nul(345, star ? kStarPrefixBytes : kPrefixBytes);
}

std::uint32_t header_hash(Bytes block) noexcept {
  const auto hash = static_cast<std::uint32_t>(XXH3_64bits(block.data(), block.size()));
  return hash == 0 ? 1 : hash;  // 0 stands for "unknown" in an index
}

void append_header(std::string& out, std::string_view name, std::uint64_t size) {
  const SplitName split = split_name(name);
  std::string records;
  if (!split.fits) records += pax_record("path", name);
  if (size > kMaxOctalSize) records += pax_record("size", std::to_string(size));
  if (!records.empty()) {
    append_block(out, {{}, "././@PaxHeader", true}, 'x', records.size());
    records.resize(padded(records.size()));
    out += records;
  }
  append_block(out, split, '0', size > kMaxOctalSize ? 0 : size);
}

}  // namespace shardmill::tar
