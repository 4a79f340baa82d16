// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/dataset.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/internal/index_file.h"

namespace shardmill::internal {

/// Where the index of a shard is: in the dataset's flat bytes, or an entry of an index file.
struct IndexPlace {
  Bytes bytes = {};  ///< Empty for an entry until FlatDataset::index() is asked.
  std::shared_ptr<const IndexFile> file = nullptr;
  std::size_t entry = 0;
};

/// Everything that an open dataset knows, as plain members.
struct FlatDataset {
  std::string spec;
  Access access = Access::kAuto;
  std::vector<DatasetPart> parts;
  std::vector<std::vector<IndexPlace>> indices;  ///< One a shard of each part.
  std::vector<FieldRule> rules;
  std::optional<Manifest> manifest;
  std::string kind_reason;
  ShardInfo info;

  /// Returns index bytes; those from a file are checked. Throws kDataLoss.
  Bytes index(std::size_t part, std::size_t s) const;
};

/// Lays a dataset out as flat bytes without pointers. Indices in files are named, not copied,
/// unless the file had to be read into memory.
std::vector<std::uint64_t> pack_dataset(const FlatDataset& dataset);

/// Makes a dataset of what pack_dataset() returned; indices refer to `flat`, index files are
/// opened. Throws kDataLoss if one of those has been replaced. Cuts `flat` to its own length.
FlatDataset unpack_dataset(Bytes& flat);

}  // namespace shardmill::internal
