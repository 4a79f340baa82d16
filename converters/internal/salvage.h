// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace shardmill::internal {

/// Returns the shards behind the DATASET `spec` if they are tars of which one cannot be opened
/// because it is damaged; empty for everything else, also what is no DATASET.
std::vector<std::filesystem::path> damaged_tars(const std::string& spec);

/// True if the tar `file` cannot be opened because it is damaged.
bool is_damaged_tar(const std::filesystem::path& file);

/// Returns how many bytes at the beginning of the tar `file` hold whole samples: up to the damage,
/// or the end; without the last one if it lacks fields that the one before it has.
std::uint64_t whole_samples_end(const std::filesystem::path& file);

/// Makes the tar `file`, whose first `bytes` are whole samples, end behind them.
void end_tar(const std::filesystem::path& file, std::uint64_t bytes);

}  // namespace shardmill::internal
