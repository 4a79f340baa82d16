// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace shardmill::internal {

/// A list as rows of named cells.
struct ListRows {
  /// One cell: absent, text, or JSON text of a nested value.
  struct Cell {
    std::string text;
    bool absent = false;
    bool nested = false;
  };
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;  ///< As many cells as columns.
  std::vector<std::uint64_t> lines;     ///< Where each row begins, from 1.
};

/// Parses `.csv` (RFC 4180: quotes, line ends in cells), `.tsv` (no quotes) and `.jsonl`. Whether
/// the first line of the former is a header: if it has one of `known`, or no cell that names a file
/// below `root`; columns without header are called "0", "1" ... Throws kDataLoss naming the line.
ListRows read_list(const std::filesystem::path& path, const std::vector<std::string>& known,
                   const std::filesystem::path& root);

}  // namespace shardmill::internal
