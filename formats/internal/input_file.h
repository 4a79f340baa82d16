// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/reader.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill::internal {

/// A read-only regular file, seen through a memory map or through pread(2): the one way in which
/// format readers get at bytes. One thread.
class InputFile {
 public:
  /// Opens `path`. Maps it (with MADV_RANDOM) or, for Access::kRead, keeps a descriptor; kAuto
  /// reads on network filesystems. Throws kNotFound, kIo, kUnsupported (not a regular file).
  InputFile(const std::filesystem::path& path, Access access);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const noexcept { return path_; }
  std::uint64_t size() const noexcept { return size_; }
  bool mapped() const noexcept { return map_ != nullptr || size_ == 0; }

  /// Lends [offset, offset + length). From the map without a copy; otherwise from a buffer that
  /// stays valid until release(). Throws kDataLoss ("file ends at …") outside the file.
  Bytes bytes(std::uint64_t offset, std::uint64_t length);
  /// Begins to bring mapped bytes into the processor's caches; costs no system call.
  void prefetch(std::uint64_t offset, std::uint64_t length) const noexcept {
    constexpr std::uint64_t kLine = 64;
    constexpr std::uint64_t kMost = 4096;  // the processor follows a longer run by itself
    if (map_ == nullptr || offset > size_ || length > size_ - offset) return;
    for (std::uint64_t at = 0; at < length && at < kMost; at += kLine) {
      __builtin_prefetch(map_ + offset + at);
    }
  }

  /// Ends the validity of everything lent from buffers; does nothing to mapped bytes.
  void release() noexcept { used_ = 0; }

  /// Starts reading [offset, offset + length) from the disk. Never fails.
  void will_need(std::uint64_t offset, std::uint64_t length) noexcept;

 private:
  struct Buffer {
    std::unique_ptr<std::byte[]> bytes;
    std::uint64_t capacity = 0;
  };
  std::string path_;
  std::uint64_t size_ = 0;
  const std::byte* map_ = nullptr;
  int fd_ = -1;
  std::vector<Buffer> buffers_;
  std::size_t used_ = 0;  // buffers lent since release()
};

/// Returns true if `path` lies on a network or user-space filesystem (NFS, SMB, Lustre, Ceph,
/// 9p, FUSE …), where maps turn I/O errors into SIGBUS.
bool on_network_filesystem(const std::filesystem::path& path) noexcept;

}  // namespace shardmill::internal
