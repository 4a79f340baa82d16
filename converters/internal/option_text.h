// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/convert.h>

#include <map>
#include <string>
#include <vector>

namespace shardmill::internal {

/// The options that decide the result, by their names on the command line, as text. Paths are
/// absolute.
using OptionTexts = std::map<std::string, std::string>;

OptionTexts option_texts(const ConvertOptions& options);

/// Sets the options of `options` that `texts` holds. Throws kDataLoss for a name that is unknown.
void apply_option_texts(const OptionTexts& texts, ConvertOptions& options);

/// Completes `options` by those of a plan. Throws kInvalidArgument naming the first option that is
/// not at its default (or is among ConvertOptions::given) and differs. `path` is the plan.
void adopt_options(const OptionTexts& planned, const std::string& path, ConvertOptions& options);

/// Returns the options that are not at their defaults as words of a command line, without sources
/// and destination.
std::vector<std::string> option_words(const OptionTexts& texts);

/// Packs several texts into one, and unpacks them.
std::string pack_texts(const std::vector<std::string>& texts);
std::vector<std::string> unpack_texts(const std::string& packed);

}  // namespace shardmill::internal
