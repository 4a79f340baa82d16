// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/input_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <shardmill/formats/error.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace shardmill::internal {

namespace {

// From linux/magic.h where it has them; the others are the kernel modules' own constants.
constexpr std::array<std::int64_t, 11> kNetworkMagics = {
    NFS_SUPER_MAGIC,         SMB_SUPER_MAGIC,  0xFF534D42 /* CIFS */,
    0xFE534D42 /* SMB2 */,   FUSE_SUPER_MAGIC, V9FS_MAGIC,
    CEPH_SUPER_MAGIC,        AFS_FS_MAGIC,     CODA_SUPER_MAGIC,
    0x0BD00BD0 /* Lustre */, 0x47504653 /* GPFS */};

}  // namespace

bool on_network_filesystem(const std::filesystem::path& path) noexcept {
  struct statfs info {};
  if (statfs(path.c_str(), &info) != 0) return false;
  const auto magic = static_cast<std::int64_t>(static_cast<std::uint32_t>(info.f_type));
  return std::find(kNetworkMagics.begin(), kNetworkMagics.end(), magic) != kNetworkMagics.end();
}

InputFile::InputFile(const std::filesystem::path& path, Access access) : path_(path.string()) {
  fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not block the open
  if (fd_ < 0) throw system_error(errno, path_, "cannot open");
  struct stat status {};
  const int failed = fstat(fd_, &status) != 0 ? errno : 0;
  if (failed != 0 || !S_ISREG(status.st_mode)) {
    close(fd_);
    if (failed != 0) throw system_error(failed, path_, "cannot stat");
    throw Error(ErrorCode::kUnsupported, path_, {}, "not a regular file");
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
  if (access == Access::kAuto) access = on_network_filesystem(path) ? Access::kRead : Access::kMap;
  if (access == Access::kRead || size_ == 0) return;

  void* map = mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd_, 0);
  const int error = errno;
  close(fd_);
  fd_ = -1;
  if (map == MAP_FAILED) throw system_error(error, path_, "cannot map into memory");
  map_ = static_cast<const std::byte*>(map);
  madvise(map, size_, MADV_RANDOM);
}

InputFile::~InputFile() {
  if (map_ != nullptr) munmap(const_cast<std::byte*>(map_), size_);
  if (fd_ >= 0) close(fd_);
}

Bytes InputFile::bytes(std::uint64_t offset, std::uint64_t length) {
  if (length > size_ || offset > size_ - length) {
    throw Error(ErrorCode::kDataLoss, path_, "offset " + std::to_string(offset),
                "file ends at " + std::to_string(size_) + " bytes, " + std::to_string(length) +
                    " bytes are needed here: truncated",
                "copy or convert the file again");
  }
  if (length == 0) return {};
  if (map_ != nullptr) return {map_ + offset, length};

  if (used_ == buffers_.size()) buffers_.emplace_back();
  Buffer& buffer = buffers_[used_++];
  if (buffer.capacity < length) {
    buffer.bytes = std::make_unique_for_overwrite<std::byte[]>(length);
    buffer.capacity = length;
  }
  for (std::uint64_t done = 0; done < length;) {
    const ssize_t got =
        pread(fd_, buffer.bytes.get() + done, length - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw system_error(errno, path_, "cannot read at offset " + std::to_string(offset));
    if (got == 0) {
      throw Error(ErrorCode::kDataLoss, path_, "offset " + std::to_string(offset + done),
                  "file became shorter while it was read");
    }
    done += static_cast<std::uint64_t>(got);
  }
  return {buffer.bytes.get(), length};
}

void InputFile::will_need(std::uint64_t offset, std::uint64_t length) noexcept {
  if (offset >= size_ || length == 0) return;
  length = std::min(length, size_ - offset);
  if (map_ != nullptr) {
    static const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t begin = offset / page * page;
    madvise(const_cast<std::byte*>(map_) + begin, offset + length - begin, MADV_WILLNEED);
  } else {
    posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(length), POSIX_FADV_WILLNEED);
  }
}

}  // namespace shardmill::internal
