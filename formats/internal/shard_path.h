// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace shardmill::internal {

/// Ends a shard's path that asks for one layout instead of the one its content suggests.
inline constexpr std::string_view kLayoutMark = "#as=";

/// The parts of a shard's path `FILE[#INNER][#as=LAYOUT]`.
struct ShardPath {
  std::filesystem::path file;
  std::string inner;   ///< An LMDB sub-database, or an HDF5 group or name prefix.
  std::string layout;  ///< A name of Format::layouts().
};

/// Takes a path apart. A path that exists as it is has no other parts; else the file is the
/// shortest part in front of a `#` that exists. If there is none, all of it is the file.
ShardPath split_shard_path(const std::filesystem::path& path);

/// Returns the file alone.
inline std::filesystem::path file_of_shard(const std::filesystem::path& path) {
  return split_shard_path(path).file;
}

/// Puts the parts together again.
std::filesystem::path join_shard_path(const ShardPath& parts);

}  // namespace shardmill::internal
