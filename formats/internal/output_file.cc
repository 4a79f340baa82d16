// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/output_file.h"

#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kStartEvery = 8 << 20;
constexpr std::size_t kBlockBytes = 1 << 20;

void write_all(int fd, Bytes bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw system_error(errno, path, "cannot write");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void sync_path(const fs::path& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC);
  if (fd < 0) throw system_error(errno, path.string(), "cannot open to sync");
  // Some filesystems refuse fsync on directories; their renames are durable by other means.
  const bool failed = fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP;
  const int error = errno;
  close(fd);
  if (failed) throw system_error(error, path.string(), "cannot sync");
}

}  // namespace

fs::path temporary_name(const fs::path& path) {
  return path.parent_path() / ("." + path.filename().string() + std::string(kTemporarySuffix));
}

void publish(const fs::path& temporary, const fs::path& path) {
  if (fs::is_directory(temporary)) {
    for (const auto& entry : fs::recursive_directory_iterator(temporary)) {
      sync_path(entry.path(), entry.is_directory() ? O_RDONLY | O_DIRECTORY : O_RDONLY);
    }
    sync_path(temporary, O_RDONLY | O_DIRECTORY);
  } else {
    sync_path(temporary, O_RDONLY);
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    throw system_error(errno, path.string(), "cannot rename the complete " + temporary.string());
  }
  const fs::path parent = path.parent_path();
  sync_path(parent.empty() ? fs::path(".") : parent, O_RDONLY | O_DIRECTORY);
}

void Writeback::reached(int fd, std::uint64_t offset) noexcept {
  const std::uint64_t ready = offset / kStartEvery * kStartEvery;
  if (ready <= started_) return;
  (void)sync_file_range(fd, static_cast<off_t>(started_), static_cast<off_t>(ready - started_),
                        SYNC_FILE_RANGE_WRITE);
  started_ = ready;
}

OutputFile::OutputFile(const fs::path& path, std::string shown)
    : path_(path),
      shown_(shown.empty() ? path.string() : std::move(shown)),
      temporary_(temporary_name(path)) {
  fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) throw system_error(errno, shown_, "cannot create");
  buffer_.reserve(kBlockBytes);
}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  unlink(temporary_.c_str());
}

// The file gets whole blocks: the kernel takes a quarter more time for parts of pages.
void OutputFile::write(Bytes bytes) {
  offset_ += bytes.size();
  while (buffer_.size() + bytes.size() >= kBlockBytes) {
    if (buffer_.empty()) {
      const std::size_t blocks = bytes.size() / kBlockBytes * kBlockBytes;
      put(bytes.first(blocks));
      bytes = bytes.subspan(blocks);
    } else {
      const Bytes part = bytes.first(kBlockBytes - buffer_.size());
      buffer_.insert(buffer_.end(), part.begin(), part.end());
      bytes = bytes.subspan(part.size());
      flush();
    }
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void OutputFile::put(Bytes bytes) {
  write_all(fd_, bytes, shown_);
  written_ += bytes.size();
  writeback_.reached(fd_, written_);
}

void OutputFile::flush() {
  put(buffer_);
  buffer_.clear();
}

void OutputFile::rewrite(std::uint64_t at, Bytes bytes) {
  SHARDMILL_CHECK(at + bytes.size() <= offset_);
  flush();
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw system_error(errno, shown_, "cannot write");
    at += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::close() {
  flush();
  publish(temporary_, path_);
  ::close(fd_);
  fd_ = -1;
}

void write_file(const fs::path& path, Bytes bytes) {
  OutputFile file(path);
  file.write(bytes);
  file.close();
}

}  // namespace shardmill::internal
