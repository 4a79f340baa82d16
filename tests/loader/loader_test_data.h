// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/loader.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace shardmill::test {

/// Writes `count` samples, "key000000" …, into a tar shard: `cls` = number % 10, `bin` with a
/// length and bytes that depend on the number (some are empty), `npy` of 2 × 3 float32.
void write_samples(const std::filesystem::path& path, std::size_t count);

/// Everything a batch holds, as one comparable text.
std::string fingerprint(const Batch& batch);

/// The fingerprints of all batches of the epochs, in order.
std::vector<std::string> load_all(Loader& loader, const std::vector<std::uint64_t>& epochs);

/// An output of one random 64-bit number per row.
Output random_output(const std::string& name = "random");

/// The names in a folder.
std::set<std::string> names_in(const std::filesystem::path& folder);

/// The pids of this process's living children and their children.
std::vector<int> descendants();

}  // namespace shardmill::test
