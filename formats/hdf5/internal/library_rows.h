// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "formats/hdf5/internal/catalog.h"
#include "formats/hdf5/internal/chunk_unpacker.h"
#include "formats/hdf5/internal/row_type.h"
#include "formats/hdf5/internal/scratch.h"

namespace shardmill::hdf5 {

/// Reads rows of one dataset through the HDF5 library, for data that cannot be lent: filtered,
/// big-endian, rows cut into chunks, variable length. Opened in the process that reads.
class LibraryRows {
 public:
  /// `name` as in ExtentRecord: a dataset, and the members of compounds behind a NUL each.
  LibraryRows(const std::string& path, std::string_view name);
  ~LibraryRows();
  LibraryRows(const LibraryRows&) = delete;
  LibraryRows& operator=(const LibraryRows&) = delete;

  /// True if rows are of variable length.
  bool is_sequence() const noexcept { return type_.varies(); }
  std::uint64_t row_bytes() const noexcept { return row_bytes_; }

  /// Returns rows [first, first + count) as C-order little-endian elements.
  /// Lent until the next call. REQUIRES: not is_sequence().
  Bytes read(std::uint64_t first, std::uint64_t count, Scratch& scratch);
  /// Returns the bytes of row `n`, those of numbers as an .npy file. REQUIRES: is_sequence().
  Bytes read_sequence(std::uint64_t n, Scratch& scratch);

 private:
  void read_into(hid_t memory_type, std::uint64_t first, std::uint64_t count, void* out);

  std::string path_;
  FileHandle file_;
  OpenDataset dataset_;
  std::unique_ptr<ChunkUnpacker> unpacker_;
  std::unique_ptr<CheckedChunks> checked_;
  RowType type_;
  TypeHandle memory_type_;  // type_.memory in the compounds around it
  std::uint64_t row_bytes_ = 0;
};

}  // namespace shardmill::hdf5
