// SPDX-License-Identifier: Apache-2.0
#include <webp/encode.h>

#include <memory>
#include <string>

#include "loader/decode/internal/encoders.h"
#include "loader/decode/internal/pixels.h"

namespace shardmill::internal {

namespace {

struct Picture : WebPPicture {
  Picture() { valid = WebPPictureInit(this) != 0; }
  ~Picture() { WebPPictureFree(this); }
  Picture(const Picture&) = delete;
  Picture& operator=(const Picture&) = delete;
  bool valid = false;
};

// The library takes no grey.
std::vector<std::uint8_t> grey_to_rgb(const PixelView& pixels) {
  std::vector<std::uint8_t> rgb;
  rgb.reserve(std::size_t{3} * pixels.width * pixels.height);
  for (std::uint32_t y = 0; y < pixels.height; ++y) {
    const std::uint8_t* row = pixels.data + y * pixels.stride;
    for (std::uint32_t x = 0; x < pixels.width; ++x) rgb.insert(rgb.end(), 3, row[x]);
  }
  return rgb;
}

int append(const std::uint8_t* data, std::size_t size, const WebPPicture* picture) {
  auto& out = *static_cast<std::vector<std::byte>*>(picture->custom_ptr);
  try {
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    out.insert(out.end(), bytes, bytes + size);
    return 1;
  } catch (...) {  // nothing may be thrown through the library
    return 0;
  }
}

}  // namespace

void encode_webp(const PixelView& pixels, const EncodeOptions& options,
                 std::vector<std::byte>& out) {
  const auto failed = [](const std::string& why) {
    throw image_error(ErrorCode::kResourceExhausted, "cannot make a WebP: " + why);
  };
  WebPConfig config;
  Picture picture;
  if (!picture.valid || WebPConfigInit(&config) == 0) failed("another version of the library");
  config.quality = static_cast<float>(options.quality);
  config.lossless = options.lossless ? 1 : 0;
  config.exact = 1;  // colours of transparent pixels stay
  picture.use_argb = config.lossless;
  picture.width = static_cast<int>(pixels.width);
  picture.height = static_cast<int>(pixels.height);
  picture.writer = append;
  picture.custom_ptr = &out;
  const auto stride = static_cast<int>(pixels.stride);
  int imported = 0;
  if (pixels.channels == 4) {
    imported = WebPPictureImportRGBA(&picture, pixels.data, stride);
  } else if (pixels.channels == 3) {
    imported = WebPPictureImportRGB(&picture, pixels.data, stride);
  } else {
    imported = WebPPictureImportRGB(&picture, grey_to_rgb(pixels).data(), 3 * picture.width);
  }
  if (imported == 0 || WebPEncode(&config, &picture) == 0) {
    failed("error " + std::to_string(static_cast<int>(picture.error_code)));
  }
}

}  // namespace shardmill::internal
