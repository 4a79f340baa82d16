// SPDX-License-Identifier: Apache-2.0
// Pixels as Pillow sees them; see reference.py.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace shardmill::test {

/// True if Pillow is there.
bool has_reference();

/// Makes images of many kinds in `folder`; returns their paths.
std::vector<std::filesystem::path> make_reference_images(const std::filesystem::path& folder);

struct ReferencePixels {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::string rgb_sha256;
};
/// Full-size pixels of those files that Pillow can tell.
std::map<std::string, ReferencePixels> reference_full(
    const std::vector<std::filesystem::path>& files);

/// Pixels of the centre box at width x height, one image after the other.
std::string reference_cover(const std::vector<std::filesystem::path>& files, std::uint32_t width,
                            std::uint32_t height);

}  // namespace shardmill::test
