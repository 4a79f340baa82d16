// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/output_file.h"

#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kStartEvery = 8 << 20;
constexpr std::size_t kBufferBytes = 1 << 20;
constexpr std::size_t kDirectBytes = 1 << 20;  // larger pieces are not copied

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
  if (bytes.size() >= kDirectBytes) return flush(bytes);
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

// Writes what is buffered, and then `more`, which need not be copied.
void OutputFile::flush(Bytes more) {
  iovec pieces[2] = {{buffer_.data(), buffer_.size()},
                     {const_cast<std::byte*>(more.data()), more.size()}};
  ssize_t done = 0;
  do {
    done = ::writev(fd_, pieces, 2);
  } while (done < 0 && errno == EINTR);
  if (done < 0) throw system_error(errno, path_.string(), "cannot write");
  auto written = static_cast<std::size_t>(done);
  const std::size_t first = std::min(written, buffer_.size());
  written -= first;
  write_all(fd_, Bytes(buffer_).subspan(first), path_.string());
  write_all(fd_, more.subspan(written), path_.string());
  buffer_.clear();
  // The disk works while the next bytes are made, not only at the end.
  const std::uint64_t ready = offset_ / kStartEvery * kStartEvery;
  if (ready <= started_) return;
  (void)sync_file_range(fd_, static_cast<off_t>(started_), static_cast<off_t>(ready - started_),
                        SYNC_FILE_RANGE_WRITE);
  started_ = ready;
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
