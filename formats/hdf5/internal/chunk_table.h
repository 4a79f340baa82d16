// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "formats/internal/input_file.h"

namespace shardmill::hdf5 {

/// Stands for a chunk that was never written; its elements have the fill value.
inline constexpr std::uint64_t kNoChunk = std::numeric_limits<std::uint64_t>::max();

/// A dataset that is chunked along its first dimension only.
struct ChunkGrid {
  std::uint64_t base = 0;         ///< What stored addresses are relative to.
  unsigned rank = 1;              ///< Dimensions of the dataset.
  std::uint64_t chunk_rows = 0;   ///< Extent of a chunk along the first dimension.
  std::uint64_t chunk_bytes = 0;  ///< Size of an unfiltered chunk.
  std::uint64_t chunks = 0;       ///< How many cover the dataset.
};

/// Returns the absolute file address of each chunk, kNoChunk where there is none, by walking the
/// version-1 B-tree that the object header at `header` points to; nothing if the dataset uses
/// another chunk index. One pass, no call of the library (whose H5Dget_chunk_info takes time
/// proportional to the number of chunks for each). Every address is checked against the file;
/// throws kDataLoss with `place` where the tree is damaged. A file too short to hold all chunks
/// gives one kNoChunk. REQUIRES: chunk_rows > 0, chunk_bytes > 0.
std::optional<std::vector<std::uint64_t>> read_chunk_table(internal::InputFile& file,
                                                           std::uint64_t header,
                                                           const ChunkGrid& grid,
                                                           const std::string& place);

}  // namespace shardmill::hdf5
