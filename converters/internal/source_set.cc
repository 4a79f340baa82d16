// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/source_set.h"

#include <shardmill/formats/error.h>

namespace shardmill::internal {

SourceSet::SourceSet(const std::vector<std::string>& specs) {
  if (specs.empty()) throw Error(ErrorCode::kInvalidArgument, {}, {}, "no source is given");
  for (const std::string& spec : specs) {
    const Dataset& dataset = datasets_.emplace_back(Dataset::open(spec));
    if (dataset.size() == 0) {
      throw Error(ErrorCode::kNotFound, spec, {},
                  "holds no samples (" + dataset.kind_reason() + ")",
                  "give a folder of class directories with files, or shards");
    }
    size_ += dataset.size();
    if (classes_.empty()) classes_ = dataset.classes();
    if (!dataset.classes().empty() && dataset.classes() != classes_) {
      throw Error(ErrorCode::kInvalidArgument, spec, {},
                  "numbers its classes differently than " + specs.front(),
                  "merge sources that have the same class directories");
    }
  }
}

SourceSet SourceSet::attach(const std::vector<Bytes>& flats, std::vector<std::string> classes,
                            std::shared_ptr<const void> owner) {
  SourceSet set;
  set.owner_ = std::move(owner);
  set.classes_ = std::move(classes);
  for (const Bytes flat : flats)
    set.size_ += set.datasets_.emplace_back(Dataset::attach(flat)).size();
  return set;
}

std::vector<Bytes> SourceSet::flats() const {
  std::vector<Bytes> flats;
  for (const Dataset& dataset : datasets_) flats.push_back(dataset.flat());
  return flats;
}

std::vector<std::string> SourceSet::warnings() const {
  std::vector<std::string> all;
  for (const Dataset& dataset : datasets_) {
    all.insert(all.end(), dataset.info().warnings.begin(), dataset.info().warnings.end());
  }
  return all;
}

std::string SourceSet::name() const { return datasets_.front().spec(); }

std::pair<std::size_t, std::uint64_t> SourceSet::locate(std::uint64_t n) const noexcept {
  std::size_t d = 0;
  while (n >= datasets_[d].size()) n -= datasets_[d++].size();
  return {d, n};
}

std::string SourceSet::shard_path(std::uint64_t n) const {
  const auto [d, inside] = locate(n);
  const Dataset& dataset = datasets_[d];
  return dataset.shards()[dataset.shard_of(inside)].path.string();
}

SourceReader::SourceReader(const SourceSet& sources) : sources_(sources) {
  for (const Dataset& dataset : sources.datasets()) readers_.emplace_back(dataset);
}

void SourceReader::read(std::uint64_t n, SampleView& out) {
  const auto [d, inside] = sources_.locate(n);
  readers_[d].read(inside, out);
}

void SourceReader::peek(std::uint64_t n, SampleView& out) {
  const auto [d, inside] = sources_.locate(n);
  readers_[d].peek(inside, out);
}

void SourceReader::will_need(std::uint64_t n) noexcept {
  if (n >= sources_.size()) return;
  const auto [d, inside] = sources_.locate(n);
  readers_[d].will_need(inside);
}

}  // namespace shardmill::internal
