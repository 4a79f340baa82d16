// SPDX-License-Identifier: Apache-2.0
#include "loader/system/memory_file.h"

#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace shardmill::internal {

namespace {

[[noreturn]] void fail(const std::string& what, std::uint64_t bytes) {
  throw Error(
      ErrorCode::kResourceExhausted, {}, "shared memory",
      system_error(errno, {}, what + " of " + std::to_string(bytes) + " bytes").info().cause,
      "use a smaller batch_size or prefetch, or raise the limits (ulimit -v, ulimit -f)");
}

}  // namespace

MemoryFile::MemoryFile(const char* name, std::uint64_t bytes) {
  fd_ = memfd_create(name, MFD_CLOEXEC);
  if (fd_ < 0) fail("cannot create a memory file", bytes);
  try {
    resize(bytes);
  } catch (...) {
    close(fd_);
    throw;
  }
}

MemoryFile::~MemoryFile() {
  unmap();
  if (fd_ >= 0) close(fd_);
}

MemoryFile::MemoryFile(MemoryFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MemoryFile& MemoryFile::operator=(MemoryFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MemoryFile::resize(std::uint64_t bytes) {
  if (ftruncate(fd_, static_cast<off_t>(bytes)) != 0) fail("cannot set the size", bytes);
  map(bytes);
}

void MemoryFile::remap() {
  struct stat status {};
  if (fstat(fd_, &status) != 0) fail("cannot stat a memory file", 0);
  map(static_cast<std::uint64_t>(status.st_size));
}

void MemoryFile::map(std::uint64_t bytes) {
  unmap();
  if (bytes == 0) return;
  void* map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, 0);
  if (map == MAP_FAILED) fail("cannot map", bytes);
  data_ = static_cast<std::byte*>(map);
  size_ = bytes;
}

void MemoryFile::unmap() noexcept {
  if (data_ != nullptr) munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

void MemoryFile::punch(std::uint64_t offset, std::uint64_t length) noexcept {
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(length));
}

void MemoryFile::dont_fork() noexcept {
  if (data_ != nullptr) madvise(data_, size_, MADV_DONTFORK);
}

}  // namespace shardmill::internal
