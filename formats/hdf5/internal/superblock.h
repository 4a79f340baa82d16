// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include "formats/internal/input_file.h"

namespace shardmill::hdf5 {

/// What an HDF5 file says about itself at its beginning.
struct Superblock {
  std::uint64_t position = 0;  ///< Where the signature stands: 0 or after a user block.
  int version = 0;
  std::uint64_t base = 0;         ///< Added to every address stored in the file.
  std::uint64_t root = 0;         ///< Stored address of the root group's object header.
  std::uint64_t end_of_file = 0;  ///< Stored end, relative to the beginning of the file.
  std::uint16_t leaf_rank = 0;    ///< Half of the names in a table of an old group; 0: not stated.
  std::uint16_t tree_rank = 0;    ///< Half of the entries in a B-tree node of one.
  bool root_is_cached = false;    ///< Says where the root group's tree and heap are.
  std::uint64_t root_tree = 0;
  std::uint64_t root_heap = 0;
  bool open_for_writing = false;  ///< The writer's mark, set while it has the file open.
};

/// Parses the superblock and checks it against the file's length. Throws kDataLoss: no
/// signature, unknown version, cut off (both lengths and the remedy), or not closed by its writer.
Superblock check_superblock(internal::InputFile& file);

/// True if an HDF5 signature stands at 0, 512, 1024, 2048, … of a regular file. Never throws.
bool has_signature(const std::filesystem::path& path) noexcept;

}  // namespace shardmill::hdf5
