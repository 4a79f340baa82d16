// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardmill::internal {

/// Memory shared with child processes: a memfd and its mapping. It needs no name in any
/// filesystem and no space in /dev/shm, and is gone when the last process that maps it ends, by
/// whatever signal. Pages cost nothing until they are touched.
class MemoryFile {
 public:
  MemoryFile() = default;
  /// Makes `bytes` of zeros; `name` shows in /proc/PID/fd. Throws kResourceExhausted.
  MemoryFile(const char* name, std::uint64_t bytes);
  ~MemoryFile();
  MemoryFile(MemoryFile&& other) noexcept;
  MemoryFile& operator=(MemoryFile&& other) noexcept;

  std::byte* data() const noexcept { return data_; }
  std::uint64_t size() const noexcept { return size_; }

  /// Makes the file `bytes` long and maps it anew; pointers into the old mapping die. For the one
  /// process that fills a file; others call remap() once it is complete.
  void resize(std::uint64_t bytes);
  /// Maps the file at its present size.
  void remap();
  /// Gives the memory of [offset, offset + length) back; the bytes read as zero afterwards.
  void punch(std::uint64_t offset, std::uint64_t length) noexcept;
  /// Keeps the mapping out of child processes.
  void dont_fork() noexcept;

 private:
  void map(std::uint64_t bytes);
  void unmap() noexcept;

  int fd_ = -1;
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
};

}  // namespace shardmill::internal
