// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/stream.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/internal/input_file.h"

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

class FileInput final : public TarInput {
 public:
  explicit FileInput(internal::InputFile& file) : file_(file) {}

  Bytes bytes(std::uint64_t offset, std::uint64_t length) override;
  std::optional<std::uint64_t> size() const noexcept override { return file_.size(); }
  const std::string& path() const noexcept override { return file_.path(); }

 private:
  internal::InputFile& file_;
  Bytes window_;  // what was read last where the file is not mapped
  std::uint64_t window_at_ = 0;
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
