// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/format.h>
#include <shardmill/formats/manifest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill::internal {

/// Shards that a manifest joins to its own.
struct ResolvedPart {
  const Format* format = nullptr;
  std::vector<std::filesystem::path> shards;
};

/// What a DATASET argument stands for.
struct ResolvedSpec {
  const Format* format = nullptr;
  std::vector<std::filesystem::path> shards;  ///< Absolute, in order.
  std::optional<Manifest> manifest;           ///< Its shards are in the same order as `shards`.
  std::filesystem::path manifest_path;
  std::vector<ResolvedPart> joined;  ///< As the manifest's.
  std::string reason;                ///< Why it was taken for what it is.
  std::vector<std::string> warnings;
};

/// Finds the shards behind a DATASET argument: a dataset directory or manifest file, one shard, a
/// glob, a brace range, or a folder of raw files; `#INNER` behind it picks a part of LMDB and HDF5
/// files, `#as=KIND` at its end says what it is to be taken for (`--as`). Throws kNotFound,
/// kUnsupported, kDataLoss.
ResolvedSpec resolve_spec(std::string_view spec);

/// Expands numeric brace ranges (`a-{000..012}.tar`), also several; the width of the first bound
/// is kept. Without a range returns `spec` alone.
std::vector<std::string> expand_braces(std::string_view spec);

/// Returns the paths that a brace range or a glob stands for, sorted by bytes for a glob; empty if
/// `spec` is neither or nothing matches.
std::vector<std::filesystem::path> expand_pattern(std::string_view spec);

}  // namespace shardmill::internal
