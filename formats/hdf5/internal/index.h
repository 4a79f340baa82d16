// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/array.h>
#include <shardmill/formats/reader.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill::hdf5 {

/// How the rows of one HDF5 dataset are reached.
enum class Storage : std::uint64_t {
  kNone,        ///< The dataset does not exist.
  kContiguous,  ///< One run in the file, at `at`.
  kChunked,     ///< Unfiltered chunks along the first dimension; addresses in words[at...].
  kLibrary,     ///< Filtered, converted or otherwise laid out: the HDF5 library reads it.
};

/// One HDF5 dataset, seen as rows of equal size. Plain numbers: part of the flat index.
struct ExtentRecord {
  Storage storage = Storage::kNone;
  std::uint64_t rows = 0;
  std::uint64_t row_bytes = 0;
  std::uint64_t chunk_rows = 0;
  std::uint64_t at = 0;
  std::uint64_t path_at = 0;  ///< Its path, in `text`; the members of compounds follow a NUL each.
  std::uint64_t path_size = 0;
};

enum class ColumnKind : std::uint64_t {
  kBytes,      ///< data + offsets.
  kClass,      ///< int64, lent as decimal text.
  kArray,      ///< Rows of `dtype` and shape.
  kSequence,   ///< Variable-length bytes: read by the library, or rows of references to the heap.
  kFixedText,  ///< Rows of bytes, padded as `dtype` (a Padding) says.
  kText,       ///< Variable-length strings, as kSequence.
  kNumberSequence,  ///< Variable-length numbers of `dtype`, lent as .npy bytes by the library.
};

/// One field (or, first in our layout, the keys).
struct ColumnRecord {
  std::uint64_t name_at = 0;
  std::uint64_t name_size = 0;
  ColumnKind kind = ColumnKind::kBytes;
  std::uint64_t dtype = 0;
  std::uint64_t shape_at = 0;  ///< In `words`.
  std::uint64_t rank = 0;
  std::uint64_t heap_base = 0;  ///< Added to the heap addresses in references.
  ExtentRecord data;
  ExtentRecord offsets;
  ExtentRecord present;
};

enum class Layout : std::uint64_t { kShardmill, kArrays };

/// Size of a reference to the global heap: length, address, number.
inline constexpr std::uint64_t kReferenceBytes = 16;

/// The index of one shard while it is being built.
struct IndexBuilder {
  std::uint64_t file_size = 0;
  std::uint64_t samples = 0;
  Layout layout = Layout::kShardmill;
  std::vector<ColumnRecord> columns;
  std::vector<std::uint64_t> words;
  std::string text;
  std::vector<std::string> warnings;

  /// Appends to `text` and returns where.
  std::uint64_t add_text(std::string_view value);
  /// Returns everything as flat bytes without pointers.
  std::vector<std::byte> flat() const;
};

/// A flat index, checked: all positions in it lie inside it, all extents inside the file.
class IndexView {
 public:
  /// Throws kDataLoss with `path` if `flat` is not an index of a file of `file_size` bytes.
  IndexView(std::span<const std::byte> flat, const std::string& path, std::uint64_t file_size);

  std::uint64_t samples() const noexcept { return samples_; }
  Layout layout() const noexcept { return layout_; }
  std::span<const ColumnRecord> columns() const noexcept { return columns_; }
  std::span<const std::uint64_t> words() const noexcept { return words_; }
  std::string_view text(std::uint64_t at, std::uint64_t size) const noexcept {
    return text_.substr(at, size);
  }
  std::vector<std::string> warnings() const;

 private:
  std::uint64_t samples_ = 0;
  Layout layout_ = Layout::kShardmill;
  std::span<const ColumnRecord> columns_;
  std::span<const std::uint64_t> words_;
  std::string_view text_;
  std::uint64_t warnings_at_ = 0;
  std::uint64_t warnings_count_ = 0;
};

}  // namespace shardmill::hdf5
