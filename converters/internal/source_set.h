// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/dataset.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace shardmill::internal {

/// The datasets that a conversion reads, one after the other. Immutable; a forked process may
/// use its copy.
class SourceSet {
 public:
  SourceSet() = default;
  /// Opens all. Throws what Dataset::open throws, and kInvalidArgument where two of them number
  /// their classes differently.
  explicit SourceSet(const std::vector<std::string>& specs);
  /// Uses what flats() of another one has returned, without looking at the sources again. `owner`
  /// keeps the bytes.
  static SourceSet attach(const std::vector<Bytes>& flats, std::vector<std::string> classes,
                          std::shared_ptr<const void> owner);
  std::vector<Bytes> flats() const;

  std::uint64_t size() const noexcept { return size_; }
  const std::vector<Dataset>& datasets() const noexcept { return datasets_; }
  const std::vector<std::string>& classes() const noexcept { return classes_; }
  std::vector<std::string> warnings() const;
  std::string name() const;  ///< The first source, for messages.

  /// Returns which dataset holds sample `n`, and its number there. REQUIRES: n < size().
  std::pair<std::size_t, std::uint64_t> locate(std::uint64_t n) const noexcept;
  /// Returns the path of the shard that holds sample `n`.
  std::string shard_path(std::uint64_t n) const;

 private:
  std::shared_ptr<const void> owner_;
  std::vector<Dataset> datasets_;
  std::vector<std::string> classes_;
  std::uint64_t size_ = 0;
};

/// Reads the samples of a SourceSet. One thread; made in the process that reads.
class SourceReader {
 public:
  explicit SourceReader(const SourceSet& sources);
  /// Lends sample `n`, valid until the next call.
  void read(std::uint64_t n, SampleView& out);
  /// The same, for names, sizes and the beginnings of payloads alone.
  void peek(std::uint64_t n, SampleView& out);
  void will_need(std::uint64_t n) noexcept;

 private:
  const SourceSet& sources_;
  std::vector<DatasetReader> readers_;
};

}  // namespace shardmill::internal
