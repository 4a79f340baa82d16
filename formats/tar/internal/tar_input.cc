// SPDX-License-Identifier: Apache-2.0
#include "formats/tar/internal/tar_input.h"

#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "formats/tar/internal/header.h"

namespace shardmill::tar {

namespace {

constexpr std::uint64_t kWindow = 1 << 16;
constexpr std::uint64_t kSmallWindow = kBlock;
constexpr std::uint64_t kNear = 4 << 10;  // copying more costs more than another call
constexpr std::uint64_t kFar = 64 << 10;  // reading ahead brings nothing

}  // namespace

FileInput::FileInput(const std::filesystem::path& path) : path_(path.string()) {
  // A FIFO must not block the open.
  fd_ = internal::Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd_.open()) throw system_error(errno, path_, "cannot open");
  struct stat status {};
  if (fstat(fd_.get(), &status) != 0) throw system_error(errno, path_, "cannot stat");
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::kUnsupported, path_, {}, "not a regular file");
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

Bytes FileInput::bytes(std::uint64_t offset, std::uint64_t length) {
  if (offset >= size_) return {};
  length = std::min(length, size_ - offset);
  const std::uint64_t distance = offset - std::min(offset, last_);
  last_ = offset;
  if (offset >= begin_ && offset - begin_ <= used_ && length <= used_ - (offset - begin_)) {
    return {buffer_.get() + (offset - begin_), length};
  }
  if (distance > kFar && !random_) {
    random_ = true;
    (void)posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_RANDOM);
  }
  const std::uint64_t wanted =
      std::min(size_ - offset, std::max(length, distance <= kNear ? kWindow : kSmallWindow));
  if (capacity_ < wanted) {
    buffer_ = std::make_unique_for_overwrite<std::byte[]>(wanted);
    capacity_ = wanted;
  }
  begin_ = offset;
  used_ = 0;
  while (used_ < wanted) {
    const ssize_t got =
        pread(fd_.get(), buffer_.get() + used_, wanted - used_, static_cast<off_t>(offset + used_));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw system_error(errno, path_, "cannot read at offset " + std::to_string(offset));
    }
    if (got == 0) {
      throw Error(ErrorCode::kDataLoss, path_, "offset " + std::to_string(offset + used_),
                  "file became shorter while it was read");
    }
    used_ += static_cast<std::uint64_t>(got);
  }
  return {buffer_.get(), length};
}

Bytes StreamInput::bytes(std::uint64_t offset, std::uint64_t length) {
  SHARDMILL_CHECK(offset >= begin_);
  while (offset - begin_ > used_) {  // what is passed over is not kept
    begin_ += used_;
    used_ = 0;
    if (!fill()) return {};
  }
  auto passed = static_cast<std::size_t>(offset - begin_);
  while (used_ - passed < length) {
    if (used_ == buffer_.size() && passed > 0) {
      std::memmove(buffer_.data(), buffer_.data() + passed, used_ - passed);
      begin_ += passed;
      used_ -= passed;
      passed = 0;
    }
    if (!fill()) break;
  }
  return {buffer_.data() + passed, std::min<std::size_t>(length, used_ - passed)};
}

// Reads more; returns false at the end. The buffer grows only as bytes arrive.
bool StreamInput::fill() {
  if (at_end_) return false;
  if (used_ == buffer_.size()) buffer_.resize(std::max<std::size_t>(4 * kWindow, 2 * used_));
  const std::size_t got = source_.read(std::span(buffer_).subspan(used_));
  used_ += got;
  at_end_ = got == 0;
  return !at_end_;
}

}  // namespace shardmill::tar
