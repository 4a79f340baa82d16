// SPDX-License-Identifier: Apache-2.0
#include <shardmill/loader/decode/image.h>

namespace shardmill {

ImageFormat sniff_image(Bytes bytes) noexcept {
  const std::string_view text = as_text(bytes);
  if (text.starts_with("\xff\xd8")) return ImageFormat::kJpeg;
  if (text.starts_with("\x89PNG")) return ImageFormat::kPng;
  if (text.starts_with("RIFF") && text.substr(0, 12).ends_with("WEBP")) return ImageFormat::kWebp;
  if (text.starts_with("GIF8")) return ImageFormat::kGif;
  if (text.starts_with("BM")) return ImageFormat::kBmp;
  if (text.starts_with(std::string_view("II*\0", 4)) ||
      text.starts_with(std::string_view("MM\0*", 4))) {
    return ImageFormat::kTiff;
  }
  return ImageFormat::kUnknown;
}

std::string_view image_format_name(ImageFormat format) noexcept {
  switch (format) {
    case ImageFormat::kUnknown:
      return "unknown";
    case ImageFormat::kJpeg:
      return "jpeg";
    case ImageFormat::kPng:
      return "png";
    case ImageFormat::kWebp:
      return "webp";
    case ImageFormat::kGif:
      return "gif";
    case ImageFormat::kBmp:
      return "bmp";
    case ImageFormat::kTiff:
      return "tiff";
  }
  return "unknown";
}

}  // namespace shardmill
