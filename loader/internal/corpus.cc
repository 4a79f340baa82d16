// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/corpus.h"

#include <utility>

namespace shardmill::internal {

Corpus::Corpus(std::vector<Dataset> datasets) : datasets_(std::move(datasets)), first_{0} {
  for (const Dataset& dataset : datasets_) first_.push_back(first_.back() + dataset.size());
}

const DatasetShard& Corpus::shard_of(std::uint64_t sample, std::uint64_t& number) const noexcept {
  const Place place = locate(sample);
  const Dataset& dataset = datasets_[place.dataset];
  const DatasetShard& shard = dataset.shards()[dataset.shard_of(place.number)];
  number = place.number - shard.first;
  return shard;
}

CorpusReader::CorpusReader(const Corpus& corpus) : corpus_(corpus) {
  for (const Dataset& dataset : corpus_.datasets()) readers_.emplace_back(dataset);
}

}  // namespace shardmill::internal
