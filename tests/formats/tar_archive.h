// SPDX-License-Identifier: Apache-2.0
// Archives put together block by block, independently of the code under test.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace shardmill::test {

inline std::string tar_padded(std::string text) {
  text.resize((text.size() + 511) / 512 * 512);
  return text;
}

/// One header block in the given dialect.
inline std::string tar_header(const std::string& name, const std::string& size, char type = '0',
                              const std::string& magic = std::string("ustar\00000", 8)) {
  std::string block(512, '\0');
  block.replace(0, name.size(), name);
  block.replace(100, 8, std::string("0000644\0", 8));
  block.replace(124, size.size(), size);
  block.replace(148, 8, "        ");
  block[156] = type;
  block.replace(257, magic.size(), magic);
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  char digits[8];
  std::snprintf(digits, sizeof digits, "%06o", sum);
  block.replace(148, 7, std::string(digits, 7));
  return block;
}

inline std::string tar_octal(std::size_t size) {
  char digits[13];
  std::snprintf(digits, sizeof digits, "%011zo", size);
  return std::string(digits, 12);
}

inline std::string tar_base256(std::uint64_t size) {
  std::string field(12, '\0');
  field[0] = static_cast<char>(0x80);
  for (std::size_t i = 11; i > 3; --i, size >>= 8) field[i] = static_cast<char>(size & 255);
  return field;
}

inline std::string tar_member(const std::string& name, const std::string& data, char type = '0') {
  return tar_header(name, tar_octal(data.size()), type) + tar_padded(data);
}

/// `LENGTH key=value\n`.
inline std::string pax_text(const std::string& record) {
  std::size_t length = record.size() + 2;
  while (std::to_string(length).size() + record.size() + 2 != length) ++length;
  return std::to_string(length) + " " + record + "\n";
}

inline std::string tar_pax(const std::string& records, char type = 'x') {
  return tar_header("././@PaxHeader", tar_octal(records.size()), type) + tar_padded(records);
}

inline const std::string kTarEnd(1024, '\0');

}  // namespace shardmill::test
