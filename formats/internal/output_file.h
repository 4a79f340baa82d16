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

/// A file being written under its temporary name. One thread. Buffers 1 MiB.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();  ///< Deletes the temporary file unless close() succeeded.
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(Bytes bytes);
  std::uint64_t offset() const noexcept { return offset_; }  ///< Bytes written so far.
  /// Flushes, publishes under the final name. Throws kResourceExhausted on a full disk.
  void close();

 private:
  void flush(Bytes more = {});
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
  std::uint64_t offset_ = 0;
  std::uint64_t started_ = 0;  // up to here the disk has been asked to write
  std::vector<std::byte> buffer_;
};

/// Writes a whole small file atomically.
void write_file(const std::filesystem::path& path, Bytes bytes);

}  // namespace shardmill::internal
