// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace shardmill::internal {

/// Returns where the sample hashes of the shard `url` of a dataset in `directory` stand: the
/// shard's name with `.sum` for its suffix; for a folder (url ".") `shard-000000.sum` in it.
std::filesystem::path sum_path(const std::filesystem::path& directory, std::string_view url);

/// Writes the 64-bit hashes of a shard's samples (Digest::low), in order, atomically. The layout
/// is in docs/formats/manifest.md.
void save_sums(const std::filesystem::path& file, const std::vector<std::uint64_t>& sums);

/// Reads them; nothing if there is no such file. Throws kDataLoss if the file itself is damaged.
std::optional<std::vector<std::uint64_t>> load_sums(const std::filesystem::path& file);

}  // namespace shardmill::internal
