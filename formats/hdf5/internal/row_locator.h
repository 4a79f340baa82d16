// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/hdf5/internal/catalog.h"
#include "formats/hdf5/internal/chunk_table.h"
#include "formats/hdf5/internal/index.h"
#include "formats/internal/input_file.h"

namespace shardmill::hdf5 {

/// Finds out where the rows of datasets lie in a file, so that readers need not ask the library;
/// or that they have to. What it finds goes into the index that is being built. Needs a Session.
class RowLocator {
 public:
  /// All outlive the locator. `base` is what stored addresses count from.
  RowLocator(const std::string& path, internal::InputFile& bytes, std::uint64_t base,
             IndexBuilder& index)
      : path_(path), bytes_(bytes), base_(base), index_(index) {}

  /// Returns the type of a dataset's rows. REQUIRES: dataset.element.
  static ArrayType row_of(const OpenDataset& dataset);

  /// Locates rows of numbers; of `row_bytes` each, whose stored bytes are what is wanted if
  /// `exact`.
  ExtentRecord extent(const OpenDataset& dataset);
  ExtentRecord extent(const OpenDataset& dataset, std::uint64_t row_bytes, bool exact);
  /// Locates references to values of variable length.
  ExtentRecord references(const OpenDataset& dataset);
  /// Leaves the rows to the library; `source` is the dataset and, behind a NUL each, members.
  ExtentRecord library_extent(const OpenDataset& dataset, std::uint64_t row_bytes,
                              const std::string& source);

 private:
  [[noreturn]] void damaged(const std::string& place, const std::string& cause) const;
  void warn_of_large_chunks(const OpenDataset& dataset);
  bool contiguous(const OpenDataset& dataset, std::uint64_t total, ExtentRecord& record);
  bool fill_values(const OpenDataset& dataset) const;
  bool chunked(const OpenDataset& dataset, ExtentRecord& record);
  void compare(const OpenDataset& dataset, const ChunkGrid& grid,
               const std::vector<std::uint64_t>& table);

  const std::string& path_;
  internal::InputFile& bytes_;
  std::uint64_t base_;
  IndexBuilder& index_;
};

}  // namespace shardmill::hdf5
