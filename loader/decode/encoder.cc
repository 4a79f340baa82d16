// SPDX-License-Identifier: Apache-2.0
#include <shardmill/loader/decode/encoder.h>

#include <string>

#include "loader/decode/internal/encoders.h"
#include "loader/decode/internal/pixels.h"

namespace shardmill {

namespace {

using namespace internal;

void check(const PixelView& pixels, const EncodeOptions& options) {
  if (options.quality < 1 || options.quality > 100) {
    throw image_error(ErrorCode::kInvalidArgument,
                      "quality " + std::to_string(options.quality) + ", allowed are 1 to 100");
  }
  const bool channels = pixels.channels == 1 || pixels.channels == 3 ||
                        (pixels.channels == 4 && options.format != ImageFormat::kJpeg);
  if (pixels.data == nullptr || pixels.width == 0 || pixels.height == 0 || !channels ||
      pixels.stride < pixels.width * pixels.channels) {
    throw image_error(ErrorCode::kInvalidArgument,
                      "no image can be made of " + std::to_string(pixels.width) + "x" +
                          std::to_string(pixels.height) + " pixels with " +
                          std::to_string(pixels.channels) + " channels");
  }
}

void check_extent(const PixelView& pixels, std::uint32_t most, const char* name) {
  if (pixels.width <= most && pixels.height <= most) return;
  throw image_error(ErrorCode::kUnsupported,
                    "image of " + std::to_string(pixels.width) + "x" +
                        std::to_string(pixels.height) + " pixels, " + name + " holds at most " +
                        std::to_string(most) + " each way",
                    "choose a smaller size, or PNG");
}

}  // namespace

void encode_image(const PixelView& given, const EncodeOptions& options,
                  std::vector<std::byte>& out) {
  constexpr std::uint32_t kMostJpeg = 65500;  // libjpeg's JPEG_MAX_DIMENSION
  constexpr std::uint32_t kMostWebp = 16383;  // 14 bits
  PixelView pixels = given;
  if (pixels.stride == 0) pixels.stride = pixels.width * pixels.channels;
  check(pixels, options);
  out.clear();
  switch (options.format) {
    case ImageFormat::kJpeg:
      check_extent(pixels, kMostJpeg, "JPEG");
      return encode_jpeg(pixels, options, out);
    case ImageFormat::kWebp:
      check_extent(pixels, kMostWebp, "WebP");
      return encode_webp(pixels, options, out);
    case ImageFormat::kPng:
      return encode_png(pixels, out);
    default:
      throw image_error(ErrorCode::kInvalidArgument,
                        std::string(image_format_name(options.format)) +
                            " images are not encoded, only JPEG, WebP and PNG");
  }
}

}  // namespace shardmill
