// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>

#include <cstdint>
#include <string>
#include <vector>

#include "formats/hdf5/internal/hdf5_handles.h"

namespace shardmill::hdf5 {

/// A dataset of variable-length uint8 to which values are appended, for programs that expect one.
/// Buffers about 1 MiB of them.
class VlenDataset {
 public:
  /// `known_rows`: how many values will come, 0 if unknown.
  VlenDataset(std::string name, std::uint64_t known_rows);

  /// True if appending `bytes` more would write to the file.
  bool would_write(std::uint64_t bytes) const noexcept;
  /// Appends a value in two pieces; `file` may be invalid unless would_write(). Throws kInternal
  /// where the library refuses; a full disk shows in the file's OutputStatus alone.
  void append(hid_t file, Bytes first, Bytes second);
  /// Writes what is left.
  void finish(hid_t file);

 private:
  void create(hid_t file, std::uint64_t rows);
  void flush(hid_t file);

  std::string name_;
  std::uint64_t known_rows_;
  std::uint64_t written_ = 0;
  std::vector<std::byte> buffer_;
  std::vector<std::uint64_t> sizes_;  // of the values in it
  TypeHandle type_;
  DatasetHandle dataset_;
};

}  // namespace shardmill::hdf5
