// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "formats/hdf5/internal/index.h"
#include "formats/internal/input_file.h"

namespace shardmill::hdf5 {

/// Returns XXH3-64 over where the samples of a shard lie: what `index` says and the values of its
/// offsets and marks of absence, read once from `file`. docs/formats/hdf5.md says which bytes, in
/// which order.
std::uint64_t structure_hash(const IndexBuilder& index, internal::InputFile& file);

}  // namespace shardmill::hdf5
