// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/dataset.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill::internal {

/// The datasets of a loader, their samples numbered one behind the other. A value.
class Corpus {
 public:
  Corpus() = default;
  explicit Corpus(std::vector<Dataset> datasets);

  bool empty() const noexcept { return datasets_.empty(); }
  const std::vector<Dataset>& datasets() const noexcept { return datasets_; }
  std::uint64_t size() const noexcept { return first_.empty() ? 0 : first_.back(); }

  /// Where a sample lies.
  struct Place {
    std::size_t dataset = 0;
    std::uint64_t number = 0;  ///< In that dataset.
  };
  /// REQUIRES: sample < size().
  Place locate(std::uint64_t sample) const noexcept {
    std::size_t dataset = 0;  // few datasets: nearly always one
    while (sample >= first_[dataset + 1]) ++dataset;
    return {dataset, sample - first_[dataset]};
  }
  /// Returns the shard that holds `sample`, and the sample's number in it.
  const DatasetShard& shard_of(std::uint64_t sample, std::uint64_t& number) const noexcept;

 private:
  std::vector<Dataset> datasets_;
  std::vector<std::uint64_t> first_;  // one more than datasets
};

/// Reads the samples of a corpus. One thread.
class CorpusReader {
 public:
  explicit CorpusReader(const Corpus& corpus);

  const Corpus& corpus() const noexcept { return corpus_; }
  std::uint64_t size() const noexcept { return corpus_.size(); }
  /// Lends sample `n` until the next call. REQUIRES: n < size().
  void read(std::uint64_t n, SampleView& out) {
    const Corpus::Place place = corpus_.locate(n);
    readers_[place.dataset].read(place.number, out);
  }
  void prefetch(std::uint64_t n) const noexcept {
    const Corpus::Place place = corpus_.locate(n);
    readers_[place.dataset].prefetch(place.number);
  }
  std::string where(std::uint64_t n, std::string_view field) {
    const Corpus::Place place = corpus_.locate(n);
    return readers_[place.dataset].where(place.number, field);
  }
  void will_need(std::uint64_t n) noexcept {
    const Corpus::Place place = corpus_.locate(n);
    readers_[place.dataset].will_need(place.number);
  }

 private:
  Corpus corpus_;
  std::vector<DatasetReader> readers_;
};

}  // namespace shardmill::internal
