// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/format.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace shardmill::internal {

/// Raw token files: numbers of one type behind each other, seen as rows of equal length. They are
/// read in place and never written, so the format is not among all_formats(); find_format("tokens")
/// knows it. A shard's path is `FILE#DTYPE:LENGTH`, because the file itself says neither.
const Format& token_format();

/// True for a path `FILE#DTYPE:LENGTH` whose file exists.
bool is_token_path(const std::filesystem::path& path);

/// Returns the path of `file` as a shard. Throws kInvalidArgument for a type that is no integer, or
/// no length.
std::filesystem::path token_path(const std::filesystem::path& file, const std::string& dtype,
                                 std::uint64_t length);

}  // namespace shardmill::internal
