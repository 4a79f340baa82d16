// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/convert.h>
#include <shardmill/converters/progress.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "converters/internal/shape.h"
#include "converters/sources/sample_source.h"

namespace shardmill::internal {

/// The sources that a conversion reads, one after the other. Immutable; a forked process may
/// use its copy.
class SourceSet {
 public:
  SourceSet() = default;
  /// Opens all: `specs` are ConvertOptions::sources, those that come once unpacked. Throws what
  /// opening them throws, and kInvalidArgument where two of them number their classes differently
  /// or have classes that `--classes` does not name.
  SourceSet(const std::vector<std::string>& specs, const ConvertOptions& options,
            const Observer& observer);

  /// A source as a plan stores it.
  struct Stored {
    std::string kind;
    Bytes flat;
  };
  /// Makes the set again without looking at the sources. `owner` keeps the bytes.
  static SourceSet attach(const std::vector<Stored>& stored, std::vector<std::string> classes,
                          std::shared_ptr<const void> owner);

  std::uint64_t size() const noexcept { return size_; }
  const std::vector<SourcePtr>& sources() const noexcept { return sources_; }
  const std::vector<std::string>& classes() const noexcept { return classes_; }
  std::vector<std::string> warnings() const;
  std::string name() const;  ///< The first source, for messages.

  /// Returns which source holds sample `n`, and its number there. REQUIRES: n < size().
  std::pair<std::size_t, std::uint64_t> locate(std::uint64_t n) const noexcept;
  /// Returns the path of what holds sample `n`, and more words about its place.
  std::string shard_path(std::uint64_t n) const;
  std::string place_of(std::uint64_t n) const;
  /// Returns the number in classes() of each class of a source; empty: they are the same.
  std::vector<std::int64_t> class_numbers(std::size_t source) const;

 private:
  void add(SourcePtr source, const ConvertOptions& options);

  std::shared_ptr<const void> owner_;
  std::vector<SourcePtr> sources_;
  std::vector<std::string> classes_;
  std::uint64_t size_ = 0;
};

/// Reads the samples of a SourceSet in the shape that was asked for. One thread; made in the
/// process that reads.
class SourceReader {
 public:
  SourceReader(const SourceSet& sources, const ConvertOptions& options);
  /// Lends sample `n`, valid until the next call.
  void read(std::uint64_t n, SampleView& out);
  /// The same, for names, sizes and the beginnings of payloads alone.
  void peek(std::uint64_t n, SampleView& out);
  void will_need(std::uint64_t n) noexcept;

 private:
  const SourceSet& sources_;
  std::vector<std::unique_ptr<SampleReader>> readers_;
  std::vector<Shape> shapes_;
};

}  // namespace shardmill::internal
