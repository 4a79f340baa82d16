// SPDX-License-Identifier: Apache-2.0
#include "tools/contact_sheet.h"

#include <png.h>
#include <shardmill/formats/error.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace shardmill::tools {

namespace {

constexpr std::uint32_t kGap = 2;  // white pixels between images

}  // namespace

void write_contact_sheet(const std::string& path, const std::vector<std::vector<std::byte>>& images,
                         std::uint32_t width, std::uint32_t height) {
  if (images.empty()) {
    throw Error(ErrorCode::kInvalidArgument, path, {}, "there are no images to show");
  }
  const auto count = static_cast<std::uint32_t>(images.size());
  const auto columns = static_cast<std::uint32_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  const std::uint32_t rows = (count + columns - 1) / columns;
  png_image sheet{};
  sheet.version = PNG_IMAGE_VERSION;
  sheet.format = PNG_FORMAT_RGB;
  sheet.width = columns * (width + kGap) - kGap;
  sheet.height = rows * (height + kGap) - kGap;
  const std::size_t stride = std::size_t{sheet.width} * 3;
  std::vector<std::byte> pixels(stride * sheet.height, std::byte{255});
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t left = std::size_t{i % columns} * (width + kGap) * 3;
    const std::size_t top = std::size_t{i / columns} * (height + kGap);
    for (std::uint32_t y = 0; y < height; ++y) {
      std::memcpy(pixels.data() + (top + y) * stride + left,
                  images[i].data() + std::size_t{y} * width * 3, std::size_t{width} * 3);
    }
  }
  const std::string unfinished = path + ".tmp";
  if (png_image_write_to_file(&sheet, unfinished.c_str(), 0, pixels.data(), 0, nullptr) == 0) {
    std::remove(unfinished.c_str());
    throw Error(ErrorCode::kIo, path, {}, std::string("cannot write the picture: ") + sheet.message,
                "check directory and permissions");
  }
  std::filesystem::rename(unfinished, path);
}

}  // namespace shardmill::tools
