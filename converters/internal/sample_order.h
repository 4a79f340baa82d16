// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/system/permutation.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace shardmill::internal {

/// Which samples of the sources are written, and in which order: ranges, one behind the other, each
/// in source order or shuffled within itself.
class SampleOrder {
 public:
  /// Adds the samples 0 ... size - 1, or those that are `chosen` (ascending) if there are any.
  void add(std::uint64_t size, std::vector<std::uint64_t> chosen,
           std::optional<std::uint64_t> seed) {
    if (!chosen.empty()) size = chosen.size();
    Range& range = ranges_.emplace_back();
    range.first = size_;
    range.chosen = std::move(chosen);
    range.size = size;
    range.seed = seed;
    if (seed && size > 0) range.shuffle.emplace(size, *seed);
    size_ += size;
  }

  std::uint64_t size() const noexcept { return size_; }

  /// Returns the number, in the sources, of the sample at `position`. REQUIRES: position < size().
  std::uint64_t operator()(std::uint64_t position) const noexcept {
    const Range& range = range_of(position);
    const std::uint64_t rank = rank_in(range, position);
    return range.chosen.empty() ? rank : range.chosen[rank];
  }

  /// Returns where the sample at `position` would stand if nothing were shuffled.
  std::uint64_t rank(std::uint64_t position) const noexcept {
    const Range& range = range_of(position);
    return range.first + rank_in(range, position);
  }

  /// What add() was given.
  struct Range {
    std::uint64_t first = 0;
    std::uint64_t size = 0;
    std::vector<std::uint64_t> chosen = {};  ///< Empty: all samples.
    std::optional<std::uint64_t> seed = {};
    std::optional<Permutation> shuffle = {};
  };
  const std::vector<Range>& ranges() const noexcept { return ranges_; }

 private:
  const Range& range_of(std::uint64_t position) const noexcept {
    std::size_t r = ranges_.size() - 1;
    while (ranges_[r].first > position) --r;
    return ranges_[r];
  }
  static std::uint64_t rank_in(const Range& range, std::uint64_t position) noexcept {
    const std::uint64_t inside = position - range.first;
    return range.shuffle ? (*range.shuffle)(inside) : inside;
  }

  std::vector<Range> ranges_;
  std::uint64_t size_ = 0;
};

}  // namespace shardmill::internal
