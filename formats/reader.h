// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill {

/// How a reader gets at a file's bytes.
enum class Access : std::uint8_t {
  kAuto,  ///< kMap, but kRead on network filesystems, where a lost server makes a map a SIGBUS.
  kMap,   ///< Bytes are lent from a memory map.
  kRead,  ///< Bytes are read with pread(2) into the reader's own buffers; an I/O error is kIo.
};

/// What a reader learned about its shard.
struct ShardInfo {
  std::string layout;                 ///< e.g. "shardmill", "webdataset", "class-per-directory".
  std::vector<std::string> classes;   ///< Class names by number, where the shard itself has them.
  std::vector<std::string> warnings;  ///< Things left out or odd, one sentence each.
};

/// Reads the samples of one shard in any order.
///
/// One thread at a time. A reader holds no lock and no library handle that a fork could break
/// unless its format says so, but is meant to be opened in the process that reads.
class Reader {
 public:
  virtual ~Reader() = default;

  /// Returns the number of samples.
  virtual std::uint64_t size() const noexcept = 0;

  /// Lends sample `n`; the view is valid until the next call of read() or peek(). A truncated or
  /// corrupt record is kDataLoss naming file, sample and place, never an early end. REQUIRES: n <
  /// size().
  virtual void read(std::uint64_t n, SampleView& out) = 0;

  /// The same for callers that need names, sizes and the beginnings of payloads alone: what they
  /// do not touch need not be read from the disk.
  virtual void peek(std::uint64_t n, SampleView& out) { read(n, out); }

  /// Says that sample `n` will be read soon and may start the disk on exactly its bytes.
  /// Never fails, never blocks for long.
  virtual void will_need(std::uint64_t /*n*/) noexcept {}

  /// Says that sample `n` is read next: a reader of mapped memory may begin to bring what it will
  /// look at into the processor's caches. Costs a few instructions, never a system call. REQUIRES:
  /// n < size().
  virtual void prefetch(std::uint64_t /*n*/) const noexcept {}

  /// Says where field `field` of sample `n` lies in the file, for messages: `offset 1536`, or for
  /// raw files which one it is. Empty where the format has nothing to say. REQUIRES: n < size().
  virtual std::string where(std::uint64_t /*n*/, std::string_view /*field*/) const { return {}; }

  virtual const ShardInfo& info() const noexcept = 0;
};

}  // namespace shardmill
