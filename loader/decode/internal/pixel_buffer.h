// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace shardmill::internal {

/// Bytes that may be read and written beyond what was asked for, so that kernels can work in
/// whole vectors.
inline constexpr std::size_t kBufferPadding = 64;

/// Memory that is kept between images. Grows when needed, never initialises.
class PixelBuffer {
 public:
  /// Returns at least `size` bytes plus kBufferPadding; what they held before is lost.
  std::uint8_t* reserve(std::size_t size) {
    if (size > size_ || data_ == nullptr) {
      data_.reset();
      data_.reset(new (kAlignment) std::uint8_t[size + kBufferPadding]);
      size_ = size;
    }
    return data_.get();
  }
  /// Gives the memory back if it is larger than `limit`: one huge image must not hold it forever.
  void trim(std::size_t limit) noexcept {
    if (size_ <= limit) return;
    data_.reset();
    size_ = 0;
  }

 private:
  // Whole pages: where the heap happened to put a buffer made up to 5 % of difference in speed.
  static constexpr std::align_val_t kAlignment{4096};
  struct Free {
    void operator()(std::uint8_t* data) const noexcept { ::operator delete[](data, kAlignment); }
  };
  std::unique_ptr<std::uint8_t[], Free> data_;
  std::size_t size_ = 0;
};

}  // namespace shardmill::internal
