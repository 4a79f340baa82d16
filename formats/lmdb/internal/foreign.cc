// SPDX-License-Identifier: Apache-2.0
#include "formats/lmdb/internal/foreign.h"

#include <algorithm>
#include <fstream>

namespace shardmill::lmdb {

namespace {

constexpr std::array<std::string_view, kLayouts> kNames = {"shardmill", "plain",     "caffe",
                                                           "str",       "meta_info", "lsun"};
constexpr std::size_t kTextDigits = 9;
constexpr std::size_t kCaffeDigits = 8;

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

}  // namespace

std::string_view layout_name(Layout layout) noexcept {
  return kNames[static_cast<std::size_t>(layout)];
}

std::optional<Layout> layout_from_name(std::string_view name) noexcept {
  const auto at = std::find(kNames.begin(), kNames.end(), name);
  if (at == kNames.end()) return std::nullopt;
  return static_cast<Layout>(at - kNames.begin());
}

std::string_view payload_field(Bytes start) noexcept {
  const std::string_view text = as_text(start);
  if (text.starts_with("\xFF\xD8\xFF")) return "jpg";
  if (text.starts_with("\x89PNG\r\n\x1A\n")) return "png";
  if (text.starts_with("RIFF") && text.size() >= 12 && text.substr(8, 4) == "WEBP") return "webp";
  return "bin";
}

bool looks_pickled(Bytes value) noexcept {
  const std::string_view text = as_text(value);
  // Protocols 2 to 5 begin with their number; pyarrow.serialize() with 0xFFFFFFFF or a count of 1
  // is not told from other bytes.
  return text.size() >= 3 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5 &&
         text.back() == '.';
}

std::uint64_t text_number(std::string_view word, std::string_view key) noexcept {
  if (key.size() != word.size() + 1 + kTextDigits || !key.starts_with(word) ||
      key[word.size()] != '-') {
    return 0;
  }
  std::uint64_t number = 0;
  for (const char c : key.substr(word.size() + 1)) {
    if (!is_digit(c)) return 0;
    number = number * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return number;
}

std::string text_key(std::string_view word, std::uint64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(word) + '-' + std::string(kTextDigits - digits.size(), '0') + digits;
}

bool is_lsun_key(std::string_view key) noexcept {
  return key.size() == 40 && std::all_of(key.begin(), key.end(), [](char c) {
           return is_digit(c) || (c >= 'a' && c <= 'f');
         });
}

std::string_view caffe_key(std::string_view key) noexcept {
  if (key.size() <= kCaffeDigits + 1 || key[kCaffeDigits] != '_' ||
      !std::all_of(key.begin(), key.begin() + kCaffeDigits, is_digit)) {
    return key;
  }
  const std::size_t slash = key.rfind('/');
  const std::size_t dot = key.find('.', slash == std::string_view::npos ? 0 : slash);
  return dot == std::string_view::npos || dot == slash + 1 ? key : key.substr(0, dot);
}

std::optional<std::uint64_t> listed_images(const std::filesystem::path& data_file) {
  std::ifstream file(data_file.parent_path() / "meta_info.txt");
  std::uint64_t lines = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    if (lines++ == 0 && line.find(".png (") == std::string::npos) return std::nullopt;
  }
  if (lines == 0) return std::nullopt;
  return lines;
}

}  // namespace shardmill::lmdb
