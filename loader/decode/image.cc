// SPDX-License-Identifier: Apache-2.0
#include <libyuv.h>
#include <shardmill/loader/decode/image.h>

#include <algorithm>
#include <new>
#include <string>

#include "loader/decode/internal/exif.h"
#include "loader/decode/internal/jpeg.h"
#include "loader/decode/internal/pixel_buffer.h"
#include "loader/decode/internal/pixels.h"
#include "loader/decode/internal/png.h"
#include "loader/decode/internal/resample.h"
#include "loader/decode/internal/webp.h"

namespace shardmill {

namespace internal {

void check_pixels(Size size, std::uint64_t max_pixels) {
  if (size.pixels() <= max_pixels) return;
  throw image_error(ErrorCode::kResourceExhausted,
                    "image of " + std::to_string(size.width) + "x" + std::to_string(size.height) +
                        " pixels is larger than the limit of " + std::to_string(max_pixels));
}

}  // namespace internal

namespace {

using namespace internal;

std::string upper(std::string_view name) {
  std::string text(name);
  for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return text;
}

std::string first_bytes(Bytes bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes.first(std::min<std::size_t>(bytes.size(), 4))) {
    text += ' ';
    text += kDigits[std::to_integer<std::size_t>(byte) >> 4];
    text += kDigits[std::to_integer<std::size_t>(byte) & 15];
  }
  return text;
}

// Returns the format if it can be decoded; throws why not otherwise.
ImageFormat decodable_format(Bytes bytes) {
  if (bytes.empty()) throw image_error(ErrorCode::kDataLoss, "empty image (0 bytes)");
  const ImageFormat format = sniff_image(bytes);
  switch (format) {
    case ImageFormat::kJpeg:
    case ImageFormat::kPng:
    case ImageFormat::kWebp:
      return format;
    case ImageFormat::kUnknown:
      throw image_error(ErrorCode::kDataLoss, "not an image: begins with" + first_bytes(bytes));
    default:
      throw image_error(ErrorCode::kUnsupported,
                        upper(image_format_name(format)) + " images are not supported",
                        "convert to JPEG, PNG or WebP");
  }
}

// Buffers above this are given back after use.
constexpr std::size_t kKeepBytes = std::size_t{256} << 20;

}  // namespace

ImageInfo probe_image(Bytes bytes) {
  switch (decodable_format(bytes)) {
    case ImageFormat::kPng:
      return probe_png(bytes);
    case ImageFormat::kWebp:
      return open_webp(bytes).info;
    default: {
      DecodeOptions unlimited;
      unlimited.max_pixels = UINT64_MAX;
      JpegDecoder jpeg;
      jpeg.open(bytes, unlimited);
      return jpeg.info();
    }
  }
}

struct ImageDecoder::State {
  DecodeOptions options;
  JpegDecoder jpeg;
  FastResampler fast;
  ExactResampler exact;
  PixelBuffer pixels, turned, planes, small;

  /// An image as stored, in `pixels`.
  struct Stored {
    const std::uint8_t* rgb;
    Size size;
    std::uint32_t orientation;
  };

  Stored decode_stored(Bytes image);
  Pixels decode_full(Bytes image);
  // What is cut out of an image as stored, and how it is turned.
  struct Cut {
    Box box;
    std::uint32_t orientation;
  };
  static Cut cut(const ChoosePart& choose, Size stored, std::uint32_t orientation);
  void decode_part(Bytes image, const ChoosePart& choose, Size target, std::uint8_t* out);
  void decode_exact(Bytes image, const ChoosePart& choose, Size target, std::uint8_t* out);
  bool decode_planes(Bytes image, const ChoosePart& choose, Size target, std::uint8_t* out);
  bool jpeg_planes(Bytes image, const ChoosePart& choose, Size target, std::uint8_t* out);
  bool webp_planes(Bytes image, const ChoosePart& choose, Size target, std::uint8_t* out);
  void resize_fast(const Planes& in, const Cut& cut, Size target, std::uint8_t* out);
  Planes split(const Stored& image);
  void trim() noexcept {
    for (PixelBuffer* buffer : {&pixels, &turned, &planes, &small}) buffer->trim(kKeepBytes);
  }
};

ImageDecoder::State::Stored ImageDecoder::State::decode_stored(Bytes image) {
  ImageInfo info;
  Size size;
  switch (decodable_format(image)) {
    case ImageFormat::kPng:
      read_png(image, options, pixels, info, size);
      break;
    case ImageFormat::kWebp: {
      const WebpImage webp = open_webp(image);
      info = webp.info;
      size = webp.stored;
      check_pixels(size, options.max_pixels);
      read_webp(webp, pixels);
      break;
    }
    default:
      jpeg.open(image, options);
      info = jpeg.info();
      size = jpeg.stored();
      jpeg.read_rgb(pixels.reserve(size.pixels() * 3));
      break;
  }
  return {pixels.reserve(0), size, info.orientation};
}

ImageDecoder::Pixels ImageDecoder::State::decode_full(Bytes image) {
  const Stored stored = decode_stored(image);
  const std::size_t bytes = stored.size.pixels() * 3;
  const Size shown = oriented(stored.size, stored.orientation);
  if (stored.orientation == 1) return {shown.width, shown.height, {stored.rgb, bytes}};
  std::uint8_t* out = turned.reserve(bytes);
  orient_rgb(stored.rgb, stored.size, stored.orientation, out);
  return {shown.width, shown.height, {out, bytes}};
}

ImageDecoder::State::Cut ImageDecoder::State::cut(const ChoosePart& choose, Size stored,
                                                  std::uint32_t orientation) {
  const Size shown = oriented(stored, orientation);
  const ImagePart part = choose(shown.width, shown.height);
  SHARDMILL_CHECK(part.left >= 0 && part.top >= 0 && part.left < part.right &&
                  part.top < part.bottom && part.right <= shown.width &&
                  part.bottom <= shown.height);
  const Box box{part.left, part.top, part.right, part.bottom};
  return {stored_box(box, stored, orientation), part.flip ? mirrored(orientation) : orientation};
}

void ImageDecoder::State::resize_fast(const Planes& in, const Cut& cut, Size target,
                                      std::uint8_t* out) {
  if (cut.orientation == 1) {
    fast.resize(in, cut.box, target, out);
    return;
  }
  const Size as_stored = oriented(target, cut.orientation);
  std::uint8_t* unturned = small.reserve(target.pixels() * 3);
  fast.resize(in, cut.box, as_stored, unturned);
  orient_rgb(unturned, as_stored, cut.orientation, out);
}

bool ImageDecoder::State::jpeg_planes(Bytes image, const ChoosePart& choose, Size target,
                                      std::uint8_t* out) {
  jpeg.open(image, options);
  if (!jpeg.has_planes()) return false;
  const Cut part = cut(choose, jpeg.stored(), jpeg.info().orientation);
  const Size as_stored = oriented(target, part.orientation);
  const double across = part.box.width() / as_stored.width;
  const double down = part.box.height() / as_stored.height;
  // Chroma may be sampled at a quarter; its filter reaches as many samples as that of luma.
  const double sample = 4 * std::clamp(std::min(across, down), 1.0, 8.0);
  const double beside = filter_reach(across / sample) * sample;
  const double beyond = filter_reach(down / sample) * sample;
  const Box needed{part.box.left - beside, part.box.top - beyond, part.box.right + beside,
                   part.box.bottom + beyond};
  resize_fast(jpeg.read_planes(across, down, needed, planes), part, target, out);
  return true;
}

bool ImageDecoder::State::webp_planes(Bytes image, const ChoosePart& choose, Size target,
                                      std::uint8_t* out) {
  const WebpImage webp = open_webp(image);
  check_pixels(webp.stored, options.max_pixels);
  if (!webp.lossy || !webp.fills_canvas()) return false;
  const Cut part = cut(choose, webp.stored, webp.info.orientation);
  const Size as_stored = oriented(target, part.orientation);
  const double ratio =
      std::max(part.box.width() / as_stored.width, part.box.height() / as_stored.height);
  const double reach = 2 * filter_reach(ratio / 2);
  resize_fast(read_webp_planes(webp, part.box, reach, planes), part, target, out);
  return true;
}

// Decodes without ever making full-size RGB, where the format allows it.
bool ImageDecoder::State::decode_planes(Bytes image, const ChoosePart& choose, Size target,
                                        std::uint8_t* out) {
  switch (decodable_format(image)) {
    case ImageFormat::kJpeg:
      return jpeg_planes(image, choose, target, out);
    case ImageFormat::kWebp:
      return webp_planes(image, choose, target, out);
    default:
      return false;
  }
}

Planes ImageDecoder::State::split(const Stored& image) {
  const std::size_t bytes = image.size.pixels();
  std::uint8_t* red = planes.reserve(3 * bytes);
  const int width = static_cast<int>(image.size.width);
  libyuv::SplitRGBPlane(image.rgb, width * 3, red, width, red + bytes, width, red + 2 * bytes,
                        width, width, static_cast<int>(image.size.height));
  Planes out;
  out.colors = PlaneColors::kRgb;
  for (std::size_t i = 0; i < 3; ++i) {
    out.planes[i].data = red + i * bytes;
    out.planes[i].stride = image.size.width;
    out.planes[i].width = image.size.width;
    out.planes[i].height = image.size.height;
  }
  return out;
}

void ImageDecoder::State::decode_exact(Bytes image, const ChoosePart& choose, Size target,
                                       std::uint8_t* out) {
  const Pixels full = decode_full(image);
  const Size size{full.width, full.height};
  const Cut part = cut(choose, size, 1);
  const bool turned_around = part.orientation != 1;
  std::uint8_t* const resized = turned_around ? small.reserve(target.pixels() * 3) : out;
  exact.resize(full.rgb.data(), size, part.box, target, resized);
  if (turned_around) orient_rgb(resized, target, part.orientation, out);
}

void ImageDecoder::State::decode_part(Bytes image, const ChoosePart& choose, Size target,
                                      std::uint8_t* out) {
  if (options.mode == DecodeMode::kExact) return decode_exact(image, choose, target, out);
  if (decode_planes(image, choose, target, out)) return;
  const Stored stored = decode_stored(image);
  resize_fast(split(stored), cut(choose, stored.size, stored.orientation), target, out);
}

ImageDecoder::ImageDecoder(DecodeOptions options) : state_(std::make_unique<State>()) {
  state_->options = options;
}
ImageDecoder::~ImageDecoder() = default;
ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;
ImageDecoder& ImageDecoder::operator=(ImageDecoder&&) noexcept = default;

const DecodeOptions& ImageDecoder::options() const noexcept { return state_->options; }

void ImageDecoder::decode_cover(Bytes image, std::uint32_t width, std::uint32_t height,
                                std::uint8_t* out) {
  const auto cover = [=](std::uint32_t image_width, std::uint32_t image_height) {
    const Box box = cover_box({image_width, image_height}, {width, height});
    return ImagePart{box.left, box.top, box.right, box.bottom, false};
  };
  decode_part(image, cover, width, height, out);
}

void ImageDecoder::decode_part(Bytes image, const ChoosePart& choose, std::uint32_t width,
                               std::uint32_t height, std::uint8_t* out) {
  SHARDMILL_CHECK(width > 0 && height > 0);
  state_->trim();
  try {
    state_->decode_part(image, choose, {width, height}, out);
  } catch (const std::bad_alloc&) {
    throw image_error(ErrorCode::kResourceExhausted, "out of memory for an image");
  }
}

ImageDecoder::Pixels ImageDecoder::decode_full(Bytes image) {
  state_->trim();
  try {
    return state_->decode_full(image);
  } catch (const std::bad_alloc&) {
    throw image_error(ErrorCode::kResourceExhausted, "out of memory for an image");
  }
}

}  // namespace shardmill
