// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/array.h>
#include <shardmill/formats/sample.h>

#include <cstdint>
#include <string>
#include <vector>

#include "formats/hdf5/internal/hdf5_handles.h"

namespace shardmill::hdf5 {

/// A dataset to which rows are appended. Buffers about 1 MiB; creates the dataset when that is
/// full, contiguous if the number of rows is known by then, else in unfiltered chunks of the
/// buffer's size. One that never fills the buffer is contiguous and exact.
class GrowingDataset {
 public:
  /// `known_rows`: how many rows will come, 0 if unknown.
  GrowingDataset(std::string name, ArrayType row, std::uint64_t known_rows);

  const std::string& name() const noexcept { return name_; }
  const ArrayType& row() const noexcept { return row_; }
  std::uint64_t rows() const noexcept { return rows_; }
  /// True if appending `bytes` more would write to the file.
  bool would_write(std::uint64_t bytes) const noexcept { return buffer_.size() + bytes >= full_; }

  /// Appends whole rows; `file` may be invalid unless would_write(). Throws kInternal where the
  /// library refuses; a full disk shows in the file's OutputStatus alone.
  void append(hid_t file, Bytes rows);
  /// Appends one row of zeros.
  void append_zeros(hid_t file);
  /// Writes what is left. Returns the dataset, so that attributes can be added.
  DatasetHandle finish(hid_t file);

 private:
  void create(hid_t file, std::uint64_t rows, bool chunked);
  void flush(hid_t file);
  void write_chunk();
  void write_rows(std::uint64_t count);

  std::string name_;
  ArrayType row_;
  std::uint64_t row_bytes_;
  std::uint64_t known_rows_;
  std::uint64_t chunk_rows_;
  std::uint64_t full_;         ///< Bytes of a full buffer.
  std::uint64_t rows_ = 0;     ///< Appended.
  std::uint64_t written_ = 0;  ///< Rows handed to the library.
  std::vector<std::byte> buffer_;
  TypeHandle type_;
  DatasetHandle dataset_;
  bool chunked_ = false;
};

}  // namespace shardmill::hdf5
