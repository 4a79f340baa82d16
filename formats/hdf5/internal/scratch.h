// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace shardmill::hdf5 {

/// Buffers that are lent until release() and then used again. One thread.
class Scratch {
 public:
  std::byte* take(std::uint64_t size) {
    if (used_ == buffers_.size()) buffers_.emplace_back();
    Buffer& buffer = buffers_[used_++];
    if (buffer.capacity < size) {
      buffer.bytes = std::make_unique_for_overwrite<std::byte[]>(size);
      buffer.capacity = size;
    }
    return buffer.bytes.get();
  }
  void release() noexcept { used_ = 0; }

 private:
  struct Buffer {
    std::unique_ptr<std::byte[]> bytes;
    std::uint64_t capacity = 0;
  };
  std::vector<Buffer> buffers_;
  std::size_t used_ = 0;
};

}  // namespace shardmill::hdf5
