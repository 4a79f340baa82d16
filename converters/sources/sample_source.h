// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/dataset.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill::internal {

/// Reads the samples of a SampleSource in any order. One thread; made in the process that reads.
class SampleReader {
 public:
  virtual ~SampleReader() = default;
  /// Lends sample `n`, valid until the next call.
  virtual void read(std::uint64_t n, SampleView& out) = 0;
  /// The same, for names, sizes and the beginnings of payloads alone.
  virtual void peek(std::uint64_t n, SampleView& out) { read(n, out); }
  virtual void will_need(std::uint64_t /*n*/) noexcept {}
  /// Returns the file that sample `n` is named after; empty where samples are not files.
  virtual std::filesystem::path file_of(std::uint64_t /*n*/) { return {}; }
};

/// Samples that a conversion reads. Immutable; any number of readers, also in forked processes.
/// Everything that finding the samples took is in flat(), so that nobody needs to do it again.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual std::uint64_t size() const = 0;
  virtual std::string name() const = 0;
  virtual std::vector<std::string> classes() const { return {}; }
  virtual std::vector<std::string> warnings() const { return {}; }
  /// Returns what messages call the place of sample `n`.
  virtual std::string path_of(std::uint64_t n) const = 0;
  /// Returns the same in words that tell samples apart.
  virtual std::string place_of(std::uint64_t n) const {
    return "sample " + std::to_string(n) + " of " + path_of(n);
  }
  /// Returns the files and directories that are read; a destination must not be among them.
  virtual std::vector<std::filesystem::path> paths() const = 0;
  virtual std::unique_ptr<SampleReader> open() const = 0;

  /// What attach_source() needs to make this source again.
  virtual std::string_view kind() const = 0;
  virtual std::vector<std::byte> flat() const = 0;
};

using SourcePtr = std::shared_ptr<const SampleSource>;

/// Makes a source of what kind() and flat() of another returned. `flat` must outlive it, and lie
/// at a multiple of 8.
SourcePtr attach_source(std::string_view kind, Bytes flat);

/// A dataset as a source.
SourcePtr dataset_source(Dataset dataset);
SourcePtr attach_dataset_source(Bytes flat);

}  // namespace shardmill::internal
