// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/convert.h>
#include <shardmill/loader/system/ranks.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <string>
#include <utility>
#include <vector>

namespace shardmill::tools {

/// What options of `convert` are made of. All but array_rank() throw CLI::ValidationError.

/// Parses `N` or `WxH`.
void parse_image_size(const std::string& text, ConvertOptions& options);
/// Parses a number or a share such as `0.1%`; with `sizes` also `64M`.
Amount parse_amount(const std::string& option, const std::string& text, bool sizes);
/// Parses `A=B`.
std::pair<std::string, std::string> parse_pair(const std::string& option, const std::string& text);
/// Adds an option that takes several such pairs, with commas between them.
void add_pairs(CLI::App& app, const std::string& name,
               std::vector<std::pair<std::string, std::string>>& pairs, const std::string& help,
               const std::string& type);

/// Returns the rank of a task of a Slurm job array. Throws kInvalidArgument if this is none.
RankInfo array_rank();

}  // namespace shardmill::tools
