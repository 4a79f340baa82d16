// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/reader.h>
#include <shardmill/formats/sample.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace shardmill {

/// Bytes that come once, from front to back: a pipe, or what is packed in a compressed file. One
/// thread.
class Source {
 public:
  virtual ~Source() = default;

  /// Fills the beginning of `out`, and returns how many bytes; 0 only at the end. Throws kIo, and
  /// kDataLoss for compressed data that are damaged, cut off, or do not fit their checksum.
  virtual std::size_t read(std::span<std::byte> out) = 0;

  /// Returns what messages call it.
  virtual const std::string& name() const noexcept = 0;
};

/// Opens a file, or standard input for "-". Whatever is compressed (gzip, zstd, bzip2, xz, lz4, by
/// content) is unpacked. Throws kNotFound, kIo.
std::unique_ptr<Source> open_source(const std::filesystem::path& path);

/// Returns "gzip", "zstd", "bzip2", "xz" or "lz4" if that is how `beginning` (6 bytes or more of a
/// file) starts, else an empty text.
std::string_view compression_name(Bytes beginning) noexcept;

/// Reads the samples of a shard once, in their order. One thread.
class Stream {
 public:
  virtual ~Stream() = default;

  /// Lends the next sample, valid until the next call. Returns false at the end, which is after the
  /// last byte of the source. Throws what a Reader throws.
  virtual bool next(SampleView& out) = 0;

  /// What was left out or odd; complete once next() has returned false.
  virtual const ShardInfo& info() = 0;
};

}  // namespace shardmill
