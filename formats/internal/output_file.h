// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace shardmill::internal {

/// Returns the temporary name for a file or directory that will be called `path`: hidden, in the
/// same directory, ending in kTemporarySuffix. The same every time, so that a later run finds
/// and replaces what a dead one left.
std::filesystem::path temporary_name(const std::filesystem::path& path);
inline constexpr std::string_view kTemporarySuffix = ".shardmill-partial";

/// Renames the complete `temporary` to `path` and makes both durable (fsync of the file, of
/// every file below if it is a directory, and of the parent directory).
void publish(const std::filesystem::path& temporary, const std::filesystem::path& path);

/// Has the disk work on what is written while the next bytes are made, so that the sync at the end
/// finds little to do: a file then takes half the time or less.
class Writeback {
 public:
  /// All bytes in front of `offset` are written.
  void reached(int fd, std::uint64_t offset) noexcept;

 private:
  std::uint64_t started_ = 0;
};

/// A file being written under its temporary name. One thread. Writes blocks of 1 MiB;
/// those of larger pieces are not copied.
class OutputFile {
 public:
  /// `shown` is what errors call the file, `path` if empty.
  explicit OutputFile(const std::filesystem::path& path, std::string shown = {});
  ~OutputFile();  ///< Deletes the temporary file unless close() succeeded.
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(Bytes bytes);
  /// Replaces bytes that were written before. REQUIRES: they end at or before offset().
  void rewrite(std::uint64_t at, Bytes bytes);
  std::uint64_t offset() const noexcept { return offset_; }  ///< Bytes written so far.
  /// Flushes, publishes under the final name. Throws kResourceExhausted on a full disk.
  void close();

 private:
  void put(Bytes bytes);
  void flush();
  std::filesystem::path path_;
  std::string shown_;
  std::filesystem::path temporary_;
  int fd_ = -1;
  std::uint64_t offset_ = 0;
  std::uint64_t written_ = 0;  // without what is buffered
  Writeback writeback_;
  std::vector<std::byte> buffer_;
};

/// Writes a whole small file atomically.
void write_file(const std::filesystem::path& path, Bytes bytes);

}  // namespace shardmill::internal
