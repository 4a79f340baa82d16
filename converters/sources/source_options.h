// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/convert.h>

#include "converters/sources/sample_source.h"

namespace shardmill::internal {

/// True for a list by its name: .csv, .tsv, .jsonl (.ndjson).
bool is_list(const std::filesystem::path& path);
/// Reads a list: `--root`, `--files`, `--class`. Throws kDataLoss naming the line, kInvalidArgument
/// for columns that are not there.
SourcePtr list_source(const std::filesystem::path& path, const ConvertOptions& options);

/// True for .npy and idx (MNIST) files, by content.
bool is_array_file(const std::filesystem::path& path);
/// Joins array files of equal first dimension: one field a file.
SourcePtr array_source(const std::vector<std::string>& paths);

}  // namespace shardmill::internal
