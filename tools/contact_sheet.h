// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shardmill::tools {

/// Writes `images` (RGB, width × height, rows packed) side by side, row by row, as one PNG file.
/// Nothing appears at `path` unless all of it was written. Throws kIo, kInvalidArgument for none.
void write_contact_sheet(const std::string& path, const std::vector<std::vector<std::byte>>& images,
                         std::uint32_t width, std::uint32_t height);

}  // namespace shardmill::tools
