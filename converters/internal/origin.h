// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "converters/internal/option_text.h"

namespace shardmill::internal {

/// What a finished conversion leaves beside its shards, so that a lost one can be made again.
inline constexpr const char* kOriginName = ".shardmill-origin.json";

struct Origin {
  OptionTexts options;
  std::vector<std::string> parts;  ///< Directories with a manifest; "" is the destination itself.
};

void save_origin(const std::filesystem::path& directory, const Origin& origin);
/// Returns nothing if there is none, or none that this version understands.
std::optional<Origin> load_origin(const std::filesystem::path& directory);

/// Returns the command that makes missing shards in `directory` again.
std::string rebuild_command(const std::filesystem::path& directory, const Origin& origin);

/// Returns `text` as one word for the shell.
std::string quoted_word(const std::string& text);

}  // namespace shardmill::internal
