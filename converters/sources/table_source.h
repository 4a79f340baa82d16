// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/array.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "converters/sources/sample_source.h"

namespace shardmill::internal {

/// One field of all samples of a table.
struct TableColumn {
  enum class Kind : std::uint8_t {
    kText,  ///< Each sample has its own bytes.
    kFile,  ///< Each sample names a file.
    kRows,  ///< Sample n is row n of one file of numbers.
  };
  std::string field;  ///< Empty (kFile): the file's extension.
  Kind kind = Kind::kText;
  std::vector<std::uint64_t> ends = {};    ///< Where each sample's text ends in `text`.
  std::string text = {};                   ///< Bytes, or absolute paths.
  std::vector<std::uint8_t> present = {};  ///< Empty: all samples have it.

  // Of kRows.
  std::filesystem::path file = {};
  std::uint64_t offset = 0;
  ArrayType row = {};
  bool big_endian = false;
  bool label = false;  ///< Rows are single integers that become decimal text.

  void add(std::string_view value) {
    text += value;
    ends.push_back(text.size());
    if (!present.empty()) present.push_back(1);
  }
  void add_absent() {
    if (present.empty()) present.assign(ends.size(), 1);
    ends.push_back(text.size());
    present.push_back(0);
  }
};

/// Samples as a list or arrays give them.
struct Table {
  std::string name;  ///< The list, for messages.
  std::uint64_t size = 0;
  std::vector<std::string> keys = {};  ///< Empty: numbers of nine digits.
  std::vector<TableColumn> columns = {};
  std::vector<std::string> classes = {};
  std::vector<std::string> warnings = {};
  std::vector<std::filesystem::path> paths = {};  ///< What is read.
};

SourcePtr table_source(const Table& table);
SourcePtr attach_table_source(Bytes flat);

}  // namespace shardmill::internal
