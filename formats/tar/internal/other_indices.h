// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace shardmill::tar {

/// Returns the text of DALI's index v1.2 for the archive `path`: a line per sample with extension,
/// offset, size and name of each of its members. Throws kUnsupported for a name with white space,
/// which such an index cannot hold.
std::string dali_index(const std::filesystem::path& path);

}  // namespace shardmill::tar
