// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/stream.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/internal/descriptor.h"

namespace shardmill::tar {

/// Where a walk gets its bytes: a file, or a stream that is read from front to back.
class TarInput {
 public:
  virtual ~TarInput() = default;

  /// Lends [offset, offset + length), less only where the input ends; valid until the next call.
  /// Offsets never go back by more than what was lent last.
  virtual Bytes bytes(std::uint64_t offset, std::uint64_t length) = 0;
  /// Returns how long the input is: known of a file, and of a stream once its end was met.
  virtual std::optional<std::uint64_t> size() const noexcept = 0;
  /// Returns what messages call it.
  virtual const std::string& path() const noexcept = 0;
};

/// A file, read with pread(2) whether readers map it or not: for headers that lie apart a small
/// read costs a fraction of a page fault, and for those that lie close together large reads let
/// the system read ahead.
class FileInput final : public TarInput {
 public:
  /// Throws kNotFound, kIo, kUnsupported (not a regular file).
  explicit FileInput(const std::filesystem::path& path);

  Bytes bytes(std::uint64_t offset, std::uint64_t length) override;
  std::optional<std::uint64_t> size() const noexcept override { return size_; }
  const std::string& path() const noexcept override { return path_; }

 private:
  std::string path_;
  internal::Descriptor fd_;
  std::uint64_t size_ = 0;
  std::unique_ptr<std::byte[]> buffer_;
  std::uint64_t capacity_ = 0;
  std::uint64_t begin_ = 0;  // what the buffer holds
  std::uint64_t used_ = 0;
  std::uint64_t last_ = 0;  // offset of the last call
  bool random_ = false;     // the system was told that pages are wanted alone
};

class StreamInput final : public TarInput {
 public:
  explicit StreamInput(Source& source) : source_(source) {}

  Bytes bytes(std::uint64_t offset, std::uint64_t length) override;
  std::optional<std::uint64_t> size() const noexcept override {
    if (!at_end_) return std::nullopt;
    return begin_ + used_;
  }
  const std::string& path() const noexcept override { return source_.name(); }

 private:
  bool fill();
  Source& source_;
  std::vector<std::byte> buffer_;
  std::uint64_t begin_ = 0;  // offset of the buffer in the stream
  std::size_t used_ = 0;     // bytes in the buffer
  bool at_end_ = false;
};

}  // namespace shardmill::tar
