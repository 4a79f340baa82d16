// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill::internal {

/// Returns the shards behind a DATASET argument that can only be read in order: "-" (standard
/// input), compressed files, also as a glob, a brace range or a directory of such. Empty if the
/// argument stands for anything else.
std::vector<std::filesystem::path> stream_paths(std::string_view spec);

/// True for names such as a.tar.gz, a.tgz, a.tar.zst.
bool has_compressed_tar_name(const std::filesystem::path& path);

/// Returns how the file is compressed (see compression_name()), empty if it is not.
std::string_view compression_of(const std::filesystem::path& file) noexcept;

/// Returns what to do about a compressed file where samples are wanted by number.
std::string unpacking_remedy(const std::filesystem::path& file);

}  // namespace shardmill::internal
