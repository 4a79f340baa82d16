// SPDX-License-Identifier: Apache-2.0
#include <shardmill/loader/decode/image.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <string>

#include "loader/decode/internal/exif.h"
#include "loader/decode/internal/jpeg.h"
#include "loader/decode/internal/pixel_buffer.h"
#include "loader/decode/internal/pixel_writer.h"
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

// Colours count as much as they are seen: those of transparent pixels may be anything.
void multiply_by_alpha(std::uint8_t* rgba, std::size_t count) {
  for (std::uint8_t* end = rgba + 4 * count; rgba != end; rgba += 4) {
    for (int c = 0; c < 3; ++c) {
      const unsigned product = rgba[c] * unsigned{rgba[3]} + 128;
      rgba[c] = static_cast<std::uint8_t>((product + (product >> 8)) >> 8);
    }
  }
}

void mirror_row(std::uint8_t* row, std::uint32_t width, std::size_t channels) {
  for (std::uint8_t *left = row, *right = row + (width - 1) * channels; left < right;
       left += channels, right -= channels) {
    std::swap_ranges(left, left + channels, right);
  }
}

// When so many pixels become one, resizing smoothes what WebP's own filter would.
constexpr double kShrinksWell = 1.5;

// Buffers above this are given back after use.
constexpr std::size_t kKeepBytes = std::size_t{256} << 20;

}  // namespace

namespace {

ImageInfo probe(Bytes bytes) {
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

}  // namespace

ImageInfo probe_image(Bytes bytes, bool apply_orientation) {
  ImageInfo info = probe(bytes);
  if (apply_orientation) return info;
  if (info.orientation >= 5) std::swap(info.width, info.height);
  info.orientation = 1;
  return info;
}

std::string_view decode_mode_name(DecodeMode mode) noexcept {
  return mode == DecodeMode::kExact ? "exact" : "fast";
}

ImagePart fit_part(Fit fit, std::uint32_t width, std::uint32_t height, std::uint32_t out_width,
                   std::uint32_t out_height) noexcept {
  if (fit == Fit::kCover) {
    const Box box = cover_box({width, height}, {out_width, out_height});
    return {.left = box.left, .top = box.top, .right = box.right, .bottom = box.bottom};
  }
  ImagePart part{.right = double{1} * width, .bottom = double{1} * height};
  if (fit == Fit::kStretch) return part;
  const double scale = std::min(double{1} * out_width / width, double{1} * out_height / height);
  const auto scaled = [scale](std::uint32_t size, std::uint32_t most) {
    return std::clamp(static_cast<std::uint32_t>(std::lround(size * scale)), 1U, most);
  };
  part.out_width = scaled(width, out_width);
  part.out_height = scaled(height, out_height);
  part.out_left = (out_width - part.out_width) / 2;
  part.out_top = (out_height - part.out_height) / 2;
  return part;
}

struct ImageDecoder::State {
  DecodeOptions options;
  JpegDecoder jpeg;
  FastResampler fast;
  ExactResampler exact;
  PixelWriter writer;
  PixelBuffer pixels, turned, planes;
  bool truncated = false;

  /// An image at full size: interleaved channels.
  struct Full {
    std::uint8_t* pixels;
    std::size_t channels;
    Size size;
    std::uint32_t orientation;  ///< Still to be applied.
  };

  Full decode_stored(Bytes image, Channels channels);
  Full decode_full(Bytes image, Channels channels);
  // What is cut out of an image as stored, and how it is turned.
  struct Cut {
    Box box;
    std::uint32_t orientation;
  };
  Cut cut(const ChoosePart& choose, Size stored, std::uint32_t orientation);
  std::uint32_t orientation_of(const ImageInfo& info) const noexcept {
    return options.apply_orientation ? info.orientation : 1;
  }
  // What has to be decoded: alpha also where it is blended.
  static Channels decoded(const PixelForm& form) noexcept {
    return form.blend ? Channels::kRgba : form.channels;
  }
  void decode_part(Bytes image, const ChoosePart& choose);
  void decode_exact(Bytes image, const ChoosePart& choose);
  bool decode_planes(Bytes image, const ChoosePart& choose);
  bool jpeg_planes(Bytes image, const ChoosePart& choose);
  bool webp_part(Bytes image, const ChoosePart& choose);
  template <class Pixels>
  void resize_fast(const Pixels& in, const Cut& cut) {
    writer.write(fast.resize(in, cut.box, writer.size(), cut.orientation));
  }
  void begin() noexcept {
    truncated = false;
    for (PixelBuffer* buffer : {&pixels, &turned, &planes}) buffer->trim(kKeepBytes);
  }
};

ImageDecoder::State::Full ImageDecoder::State::decode_stored(Bytes image, Channels wanted) {
  std::size_t channels = wanted == Channels::kRgba ? 4 : 3;
  ImageInfo info;
  Size size;
  switch (decodable_format(image)) {
    case ImageFormat::kPng:
      truncated = !read_png(image, options, channels, pixels, info, size);
      break;
    case ImageFormat::kWebp: {
      const WebpImage webp = open_webp(image);
      info = webp.info;
      size = webp.stored;
      check_pixels(size, options.max_pixels);
      read_webp(webp, channels, pixels);
      break;
    }
    default:
      jpeg.open(image, options);
      info = jpeg.info();
      size = jpeg.stored();
      channels = 3;
      jpeg.read_rgb(pixels.reserve(size.pixels() * 3), wanted == Channels::kGrey);
      truncated = jpeg.truncated();
      break;
  }
  return {pixels.reserve(0), channels, size, orientation_of(info)};
}

ImageDecoder::State::Full ImageDecoder::State::decode_full(Bytes image, Channels channels) {
  const Full stored = decode_stored(image, channels);
  if (stored.orientation == 1) return stored;
  std::uint8_t* const out = turned.reserve(stored.size.pixels() * stored.channels);
  orient_pixels(stored.pixels, stored.channels, stored.size, stored.orientation, out);
  return {out, stored.channels, oriented(stored.size, stored.orientation), 1};
}

// Also puts the part where it goes in the output.
ImageDecoder::State::Cut ImageDecoder::State::cut(const ChoosePart& choose, Size stored,
                                                  std::uint32_t orientation) {
  const Size shown = oriented(stored, orientation);
  const ImagePart part = choose(shown.width, shown.height);
  SHARDMILL_CHECK(part.left >= 0 && part.top >= 0 && part.left < part.right &&
                  part.top < part.bottom && part.right <= shown.width &&
                  part.bottom <= shown.height);
  if (part.out_width > 0 || part.out_height > 0) {
    const Size whole = writer.size();
    SHARDMILL_CHECK(part.out_width > 0 && part.out_height > 0 && part.out_width <= whole.width &&
                    part.out_height <= whole.height &&
                    part.out_left <= whole.width - part.out_width &&
                    part.out_top <= whole.height - part.out_height);
    writer.place(part.out_left, part.out_top, {part.out_width, part.out_height});
    writer.fill_border();
  }
  const Box box{part.left, part.top, part.right, part.bottom};
  return {stored_box(box, stored, orientation), part.flip ? mirrored(orientation) : orientation};
}

bool ImageDecoder::State::jpeg_planes(Bytes image, const ChoosePart& choose) {
  jpeg.open(image, options);
  if (!jpeg.has_planes()) return false;
  const Cut part = cut(choose, jpeg.stored(), orientation_of(jpeg.info()));
  const Size as_stored = oriented(writer.size(), part.orientation);
  JpegDecoder::PlanesRequest request;
  request.across = part.box.width() / as_stored.width;
  request.down = part.box.height() / as_stored.height;
  // Chroma may be sampled at a quarter; its filter reaches as many samples as that of luma.
  const double sample = 4 * std::clamp(std::min(request.across, request.down), 1.0, 8.0);
  const double beside = filter_reach(request.across / sample) * sample;
  const double beyond = filter_reach(request.down / sample) * sample;
  request.needed = {part.box.left - beside, part.box.top - beyond, part.box.right + beside,
                    part.box.bottom + beyond};
  request.luma_only = writer.form().channels == Channels::kGrey;
  resize_fast(jpeg.read_planes(request, planes), part);
  truncated = jpeg.truncated();
  return true;
}

bool ImageDecoder::State::webp_part(Bytes image, const ChoosePart& choose) {
  const WebpImage webp = open_webp(image);
  check_pixels(webp.stored, options.max_pixels);
  if (!webp.fills_canvas()) return false;
  const bool alpha = decoded(writer.form()) == Channels::kRgba && webp.info.channels == 4;
  const Cut part = cut(choose, webp.stored, orientation_of(webp.info));
  const Size as_stored = oriented(writer.size(), part.orientation);
  const double across = part.box.width() / as_stored.width;
  const double down = part.box.height() / as_stored.height;
  const double reach = 2 * filter_reach(std::max(across, down) / 2);
  if (webp.lossy && !alpha) {
    const bool deblock = std::min(across, down) < kShrinksWell;
    resize_fast(read_webp_planes(webp, part.box, reach, deblock, planes), part);
    return true;
  }
  const Interleaved in = read_webp_part(webp, alpha ? 4 : 3, part.box, reach, pixels);
  if (alpha) multiply_by_alpha(pixels.reserve(0), std::size_t{in.width} * in.height);
  resize_fast(in, part);
  return true;
}

// Decodes without ever making full-size RGB, or only a part of it, where the format allows it.
bool ImageDecoder::State::decode_planes(Bytes image, const ChoosePart& choose) {
  switch (decodable_format(image)) {
    case ImageFormat::kJpeg:
      return jpeg_planes(image, choose);
    case ImageFormat::kWebp:
      return webp_part(image, choose);
    default:
      return false;
  }
}

void ImageDecoder::State::decode_exact(Bytes image, const ChoosePart& choose) {
  const Full full = decode_full(image, decoded(writer.form()));
  const Cut part = cut(choose, full.size, 1);
  const Size target = writer.size();
  if (full.channels == 4) multiply_by_alpha(full.pixels, full.size.pixels());
  const auto sink = [&](std::uint32_t y, std::uint8_t* row) {
    if (part.orientation != 1) mirror_row(row, target.width, full.channels);
    if (full.channels == 4) divide_by_alpha(row, target.width);
    writer.write_rows(y, 1, row, target.width * full.channels, full.channels);
  };
  exact.resize(full.pixels, full.channels, full.size, part.box, target, sink);
}

void ImageDecoder::State::decode_part(Bytes image, const ChoosePart& choose) {
  if (options.mode == DecodeMode::kExact) return decode_exact(image, choose);
  if (decode_planes(image, choose)) return;
  const Full stored = decode_stored(image, decoded(writer.form()));
  if (stored.channels == 4) multiply_by_alpha(stored.pixels, stored.size.pixels());
  const Cut part = cut(choose, stored.size, stored.orientation);
  resize_fast(
      Interleaved{stored.pixels, stored.channels, stored.size.width, stored.size.height, 0, 0},
      part);
}

ImageDecoder::ImageDecoder(DecodeOptions options) : state_(std::make_unique<State>()) {
  state_->options = options;
}
ImageDecoder::~ImageDecoder() = default;
ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;
ImageDecoder& ImageDecoder::operator=(ImageDecoder&&) noexcept = default;

const DecodeOptions& ImageDecoder::options() const noexcept { return state_->options; }

bool ImageDecoder::was_truncated() const noexcept { return state_->truncated; }

void ImageDecoder::decode_cover(Bytes image, std::uint32_t width, std::uint32_t height,
                                std::uint8_t* out) {
  const auto cover = [=](std::uint32_t image_width, std::uint32_t image_height) {
    return fit_part(Fit::kCover, image_width, image_height, width, height);
  };
  decode_part(image, cover, width, height, out);
}

void ImageDecoder::decode_part(Bytes image, const ChoosePart& choose, std::uint32_t width,
                               std::uint32_t height, std::uint8_t* out) {
  decode_part(image, choose, width, height, PixelForm{}, reinterpret_cast<std::byte*>(out));
}

void ImageDecoder::decode_part(Bytes image, const ChoosePart& choose, std::uint32_t width,
                               std::uint32_t height, const PixelForm& form, std::byte* out) {
  SHARDMILL_CHECK(width > 0 && height > 0);
  state_->begin();
  try {
    state_->writer.begin(form, {width, height}, out);
    state_->decode_part(image, choose);
  } catch (const std::bad_alloc&) {
    throw image_error(ErrorCode::kResourceExhausted, "out of memory for an image");
  }
}

ImageDecoder::Pixels ImageDecoder::decode_full(Bytes image) {
  state_->begin();
  try {
    const State::Full full = state_->decode_full(image, Channels::kRgb);
    return {full.size.width, full.size.height, {full.pixels, full.size.pixels() * 3}};
  } catch (const std::bad_alloc&) {
    throw image_error(ErrorCode::kResourceExhausted, "out of memory for an image");
  }
}

void ImageDecoder::decode_full(Bytes image, std::uint32_t width, std::uint32_t height,
                               const PixelForm& form, std::byte* out) {
  state_->begin();
  try {
    PixelWriter& writer = state_->writer;
    const State::Full full = state_->decode_full(image, State::decoded(form));
    SHARDMILL_CHECK(full.size.width <= width && full.size.height <= height);
    writer.begin(form, {width, height}, out);
    writer.place(0, 0, full.size);
    writer.write_rows(0, full.size.height, full.pixels, full.size.width * full.channels,
                      full.channels);
  } catch (const std::bad_alloc&) {
    throw image_error(ErrorCode::kResourceExhausted, "out of memory for an image");
  }
}

}  // namespace shardmill
