// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/output_file.h"

#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kBufferBytes = 1 << 20;

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

OutputFile::OutputFile(const fs::path& path) : path_(path), temporary_(temporary_name(path)) {
  fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) throw system_error(errno, path.string(), "cannot create");
  buffer_.reserve(kBufferBytes);
}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  unlink(temporary_.c_str());
}

void OutputFile::write(Bytes bytes) {
  offset_ += bytes.size();
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() >= kBufferBytes) return write_all(fd_, bytes, path_.string());
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void OutputFile::flush() {
  write_all(fd_, buffer_, path_.string());
  buffer_.clear();
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
