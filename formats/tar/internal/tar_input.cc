// SPDX-License-Identifier: Apache-2.0
#include "formats/tar/internal/tar_input.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <cstring>

namespace shardmill::tar {

namespace {

constexpr std::uint64_t kWindow = 1 << 16;
constexpr std::uint64_t kSmallWindow = 1 << 12;

}  // namespace

Bytes FileInput::bytes(std::uint64_t offset, std::uint64_t length) {
  if (offset >= file_.size()) return {};
  length = std::min(length, file_.size() - offset);
  if (file_.mapped()) return file_.bytes(offset, length);
  // Headers that lie close together are read many at a time.
  if (offset < window_at_ || offset - window_at_ + length > window_.size()) {
    const bool near = offset - window_at_ < 2 * kWindow;
    file_.release();
    window_at_ = offset;
    const std::uint64_t wanted = std::max(length, near ? kWindow : kSmallWindow);
    window_ = file_.bytes(offset, std::min(file_.size() - offset, wanted));
  }
  return window_.subspan(offset - window_at_, length);
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
