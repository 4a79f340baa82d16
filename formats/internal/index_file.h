// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/format.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/internal/flat_index.h"

namespace shardmill::internal {

/// By what a file is known again: an index made of it is stale if one of them has changed.
struct FileStamp {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  bool operator==(const FileStamp&) const = default;
};

/// Returns the stamp of `file`; all zero if it cannot be looked at.
FileStamp stamp_of(const std::filesystem::path& file) noexcept;

/// One shard as an index file has it. An entry without `index` stands for a shard that is indexed
/// whenever it is opened.
struct IndexEntry {
  std::uint64_t samples = 0;
  FileStamp stamp = {};  ///< Of Format::data_file().
  ShardInfo info = {};
  Bytes index = {};  ///< What Format::build_index() returned.
};

/// Returns where the index of a single shard stands if it was written beside it: `SHARD.index`.
std::filesystem::path sidecar_path(const std::filesystem::path& shard);

/// Writes an index file atomically: the indices of `entries`, see docs/index.md.
void write_index_file(const std::filesystem::path& file, std::span<const IndexEntry> entries);

/// An index file, mapped (read into memory on network filesystems, where a lost server makes a map
/// a SIGBUS), so that all processes that use it share its pages. Immutable; any thread.
class IndexFile {
 public:
  /// Throws kNotFound, kIo, and kDataLoss for a file that is cut off or is none.
  explicit IndexFile(const std::filesystem::path& file);
  ~IndexFile();
  IndexFile(const IndexFile&) = delete;
  IndexFile& operator=(const IndexFile&) = delete;

  const std::string& path() const noexcept { return path_; }
  const FileStamp& stamp() const noexcept { return stamp_; }
  bool mapped() const noexcept { return mapped_; }
  std::size_t size() const noexcept { return entries_.size(); }
  /// Throws kDataLoss if the entry lies outside, or its info is damaged. REQUIRES: i < size().
  IndexEntry entry(std::size_t i) const;
  /// Throws kDataLoss unless the checksum of the entry's index fits. Reads all of it.
  void verify(std::size_t i) const;
  struct Stored {
    std::uint64_t samples = 0;
    std::uint64_t file_size = 0;
    std::int64_t mtime_ns = 0;
    std::uint64_t info_offset = 0;
    std::uint64_t info_size = 0;
    std::uint64_t index_offset = 0;
    std::uint64_t index_size = 0;
    std::uint64_t info_hash = 0;  ///< XXH3-64, as the next one.
    std::uint64_t index_hash = 0;
  };

 private:
  void open();
  Bytes piece(std::uint64_t offset, std::uint64_t size) const;
  [[noreturn]] void damaged(const std::string& cause) const;

  std::string path_;
  FileStamp stamp_;
  Bytes bytes_;
  bool mapped_ = false;
  std::vector<std::uint64_t> owned_;
  std::span<const Stored> entries_;
};

}  // namespace shardmill::internal
