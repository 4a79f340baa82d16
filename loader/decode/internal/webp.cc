// SPDX-License-Identifier: Apache-2.0
#include "loader/decode/internal/webp.h"

#include <webp/decode.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>

#include "loader/decode/internal/exif.h"

namespace shardmill::internal {

namespace {

std::uint32_t little_endian(std::string_view bytes, std::size_t at, std::size_t size) noexcept {
  std::uint32_t value = 0;
  for (std::size_t i = size; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  }
  return value;
}

Error damaged(std::string cause) {
  return image_error(ErrorCode::kDataLoss, "corrupt WebP: " + std::move(cause));
}

Error status_error(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
      return image_error(ErrorCode::kResourceExhausted, "out of memory for a WebP");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return image_error(ErrorCode::kUnsupported, "unsupported WebP: unsupported feature");
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return image_error(ErrorCode::kDataLoss, "truncated WebP: not enough data");
    default:
      return damaged("bitstream error");
  }
}

constexpr std::size_t kChunkHeader = 8;
constexpr std::size_t kFrameHeader = 16;

struct Chunk {
  std::string_view name;
  std::string_view body;
};

// Takes the first chunk off `rest`; false at the end. A chunk that is cut off is as long as there
// are bytes: libwebp judges the picture.
bool next_chunk(std::string_view& rest, Chunk& chunk) noexcept {
  if (rest.size() < kChunkHeader) return false;
  const std::size_t size = little_endian(rest, 4, 4);
  chunk.name = rest.substr(0, 4);
  chunk.body = rest.substr(kChunkHeader, size);
  const std::size_t padded = kChunkHeader + size + (size & 1);
  rest.remove_prefix(std::min(padded, rest.size()));
  return true;
}

void parse_frame(WebpImage& image, std::string_view body) {
  if (body.size() < kFrameHeader) throw image_error(ErrorCode::kDataLoss, "truncated WebP: ANMF");
  image.frame_x = little_endian(body, 0, 3) * 2;
  image.frame_y = little_endian(body, 3, 3) * 2;
  image.frame = as_bytes(body.substr(kFrameHeader));
}

// Finds the first frame of an animation and the EXIF chunk.
void parse_chunks(WebpImage& image, std::string_view text, bool animated) {
  std::string_view rest = text.substr(12);
  Chunk chunk;
  bool found = !animated;
  while (next_chunk(rest, chunk)) {
    if (!found && chunk.name == "ANMF") {
      parse_frame(image, chunk.body);
      found = true;
    } else if (chunk.name == "EXIF" && image.info.orientation == 1) {
      image.info.orientation = exif_orientation(as_bytes(chunk.body));
    }
  }
  if (!found) throw image_error(ErrorCode::kDataLoss, "truncated WebP: animation without frames");
}

const std::uint8_t* data_of(Bytes bytes) noexcept {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

WebPBitstreamFeatures features_of(Bytes bytes) {
  WebPBitstreamFeatures features;
  const VP8StatusCode status = WebPGetFeatures(data_of(bytes), bytes.size(), &features);
  if (status != VP8_STATUS_OK) throw status_error(status);
  return features;
}

WebPDecoderConfig new_config() {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) {
    throw image_error(ErrorCode::kInternal, "libwebp is of another version than its header");
  }
  return config;
}

void set_pixels(WebPDecoderConfig& config, std::size_t channels, std::uint8_t* out,
                std::size_t stride, std::size_t bytes) {
  config.output.colorspace = channels == 4 ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = out;
  config.output.u.RGBA.stride = static_cast<int>(stride);
  config.output.u.RGBA.size = bytes;
}

void decode(const WebpImage& image, WebPDecoderConfig& config) {
  const VP8StatusCode status = WebPDecode(data_of(image.frame), image.frame.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status != VP8_STATUS_OK) throw status_error(status);
}

}  // namespace

WebpImage open_webp(Bytes bytes) {
  const std::string_view text = as_text(bytes);
  if (text.size() < 20) throw image_error(ErrorCode::kDataLoss, "truncated WebP: header cut off");
  const std::uint64_t said = std::uint64_t{little_endian(text, 4, 4)} + kChunkHeader;
  if (said > text.size()) {
    throw image_error(ErrorCode::kDataLoss, "truncated WebP: " + std::to_string(text.size()) +
                                                " of " + std::to_string(said) + " bytes");
  }
  WebpImage image;
  const WebPBitstreamFeatures canvas = features_of(bytes);
  image.stored = {static_cast<std::uint32_t>(canvas.width),
                  static_cast<std::uint32_t>(canvas.height)};
  image.info.format = ImageFormat::kWebp;
  image.info.channels = canvas.has_alpha != 0 ? 4 : 3;
  image.info.bit_depth = 8;
  image.frame = bytes;
  image.frame_size = image.stored;
  image.lossy = canvas.format == 1;
  if (text.substr(12, 4) == "VP8X") parse_chunks(image, text, canvas.has_animation != 0);
  if (canvas.has_animation != 0) {
    const WebPBitstreamFeatures frame = features_of(image.frame);
    image.frame_size = {static_cast<std::uint32_t>(frame.width),
                        static_cast<std::uint32_t>(frame.height)};
    image.lossy = frame.format == 1;
    if (image.frame_x + std::uint64_t{image.frame_size.width} > image.stored.width ||
        image.frame_y + std::uint64_t{image.frame_size.height} > image.stored.height) {
      throw damaged("the first frame reaches beyond the canvas");
    }
  }
  const Size shown = oriented(image.stored, image.info.orientation);
  image.info.width = shown.width;
  image.info.height = shown.height;
  return image;
}

void read_webp(const WebpImage& image, std::size_t channels, PixelBuffer& buffer) {
  const std::size_t stride = image.stored.width * channels;
  const std::size_t bytes = stride * image.stored.height;
  std::uint8_t* out = buffer.reserve(bytes);
  if (!image.fills_canvas()) std::memset(out, 0, bytes);
  const std::size_t start = image.frame_y * stride + image.frame_x * channels;
  WebPDecoderConfig config = new_config();
  set_pixels(config, channels, out + start, stride, bytes - start);
  decode(image, config);
}

namespace {

// What is decoded of a picture: whole pairs of pixels, so that chroma samples lie as in all of it.
struct Crop {
  std::uint32_t left, top, width, height;
};

Crop crop_around(const WebpImage& image, const Box& box, double reach) {
  const auto low = [&](double edge) {
    return static_cast<std::uint32_t>(std::max(std::floor(edge - reach), 0.0)) & ~1U;
  };
  const auto high = [&](double edge, std::uint32_t size) {
    return static_cast<std::uint32_t>(std::min(std::ceil(edge + reach), double{1} * size));
  };
  const std::uint32_t left = low(box.left);
  const std::uint32_t top = low(box.top);
  return {left, top, high(box.right, image.stored.width) - left,
          high(box.bottom, image.stored.height) - top};
}

void set_crop(WebPDecoderConfig& config, const Crop& crop) {
  config.options.use_cropping = 1;
  config.options.crop_left = static_cast<int>(crop.left);
  config.options.crop_top = static_cast<int>(crop.top);
  config.options.crop_width = static_cast<int>(crop.width);
  config.options.crop_height = static_cast<int>(crop.height);
}

}  // namespace

Interleaved read_webp_part(const WebpImage& image, std::size_t channels, const Box& box,
                           double reach, PixelBuffer& buffer) {
  const Crop crop = crop_around(image, box, reach);
  const std::size_t stride = crop.width * channels;
  std::uint8_t* const out = buffer.reserve(stride * crop.height);
  WebPDecoderConfig config = new_config();
  set_crop(config, crop);
  set_pixels(config, channels, out, stride, stride * crop.height);
  decode(image, config);
  return {out, channels, crop.width, crop.height, -double{1} * crop.left, -double{1} * crop.top};
}

Planes read_webp_planes(const WebpImage& image, const Box& box, double reach, bool deblock,
                        PixelBuffer& buffer) {
  const Crop crop = crop_around(image, box, reach);
  const auto& [left, top, width, height] = crop;
  const std::uint32_t half_width = (width + 1) / 2;
  const std::uint32_t half_height = (height + 1) / 2;
  const std::size_t luma_bytes = std::size_t{width} * height;
  const std::size_t chroma_bytes = std::size_t{half_width} * half_height;
  std::uint8_t* y = buffer.reserve(luma_bytes + 2 * chroma_bytes);
  std::uint8_t* u = y + luma_bytes;
  std::uint8_t* v = u + chroma_bytes;

  WebPDecoderConfig config = new_config();
  set_crop(config, crop);
  config.options.bypass_filtering = deblock ? 0 : 1;
  config.output.colorspace = MODE_YUV;
  config.output.is_external_memory = 1;
  WebPYUVABuffer& yuv = config.output.u.YUVA;
  yuv = {};
  yuv.y = y, yuv.y_stride = static_cast<int>(width), yuv.y_size = luma_bytes;
  yuv.u = u, yuv.u_stride = static_cast<int>(half_width), yuv.u_size = chroma_bytes;
  yuv.v = v, yuv.v_stride = static_cast<int>(half_width), yuv.v_size = chroma_bytes;
  decode(image, config);

  Planes out;
  out.colors = PlaneColors::kYccVideoRange;
  out.planes[0] = {y, width, width, height, 1, 1, -double{1} * left, -double{1} * top, 0};
  Plane chroma = {u, half_width, half_width, half_height, 0.5, 0.5, -0.5 * left, -0.5 * top, 0};
  out.planes[1] = chroma;
  chroma.data = v;
  out.planes[2] = chroma;
  return out;
}

}  // namespace shardmill::internal
