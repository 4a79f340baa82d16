// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/index.h>
#include <shardmill/formats/dataset.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill::internal {

/// A shard that is adopted, and where its index is at hand.
struct AdoptedShard {
  std::filesystem::path path;
  std::uint64_t samples = 0;
  std::string xxh3;  ///< As the source's manifest has it.
  const Dataset* dataset = nullptr;
  std::size_t part = 0;    ///< In `dataset`.
  std::size_t number = 0;  ///< In that part.
};

struct AdoptedPart {
  const Format* format = nullptr;
  std::vector<AdoptedShard> shards;
};

/// Datasets that stand for one set of samples: the sources one behind the other, or one set that
/// is joined to them.
struct AdoptedGroup {
  std::vector<Dataset> datasets;
  std::size_t first_part = 0;    ///< Its parts in Adoption::parts.
  std::vector<FieldRule> rules;  ///< As the datasets' own manifests have them; may be empty.
  std::uint64_t samples = 0;
};

/// What `options` name, opened and checked against each other.
struct Adoption {
  std::vector<AdoptedGroup> groups;  ///< The sources, then each joined set.
  std::vector<AdoptedPart> parts;
  std::vector<std::string> classes;          ///< Of the sources.
  std::vector<std::size_t> source_of_shard;  ///< Of each shard of part 0: number of its source.
};

Adoption adopt(const IndexOptions& options);

/// Visits all samples of a group in order. Reads payloads only as far as `visit` touches them.
void visit_group(const AdoptedGroup& group, std::string_view phase, const Observer& observer,
                 const std::function<void(const SampleView&)>& visit);

/// Reads the class names of `--classes`: lines of a text file, a JSON list, a JSON object from
/// names to numbers, or the classes of a DATASET. Throws kInvalidArgument.
std::vector<std::string> load_classes(const std::string& from);

}  // namespace shardmill::internal
