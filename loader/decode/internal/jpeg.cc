// SPDX-License-Identifier: Apache-2.0
#include "loader/decode/internal/jpeg.h"

#include <algorithm>
#include <cstring>

#include "loader/decode/internal/exif.h"
#include "loader/decode/internal/jpeg_session.h"

namespace shardmill::internal {

namespace {

constexpr unsigned char kEndOfImage = 0xd9;
constexpr unsigned char kStartOfScan = 0xda;
constexpr unsigned char kApp1 = 0xe1;

// Walks the segments before the first scan to the first APP1 that holds EXIF. Libjpeg could keep
// APP1, but would copy it (often tens of kilobytes with a thumbnail) for every image.
std::uint32_t find_orientation(std::string_view text) noexcept {
  std::size_t at = 2;
  while (true) {
    at = text.find('\xff', at);
    if (at == text.npos) return 1;
    at = text.find_first_not_of('\xff', at);
    if (at == text.npos || text.size() - at < 3) return 1;
    const auto marker = static_cast<unsigned char>(text[at]);
    if (marker == kStartOfScan || marker == kEndOfImage) return 1;
    ++at;
    if (marker == 0 || marker == 1 || (marker >= 0xd0 && marker <= 0xd8)) continue;  // bare
    const std::size_t length = static_cast<unsigned char>(text[at]) * std::size_t{256} +
                               static_cast<unsigned char>(text[at + 1]);
    if (length < 2 || length > text.size() - at) return 1;
    const std::string_view body = text.substr(at + 2, length - 2);
    if (marker == kApp1 && body.starts_with(std::string_view("Exif\0", 5))) {
      return exif_orientation(as_bytes(body));
    }
    at += length;
  }
}

// Adobe programs store inks inverted and say so with a marker; without it, 255 is full ink. The
// formula and rounding are those of djpeg.
void cmyk_to_rgb(const std::uint8_t* in, std::uint32_t width, bool inverted, std::uint8_t* out) {
  const unsigned flip = inverted ? 0 : 255;
  for (std::uint32_t x = 0; x < width; ++x, in += 4, out += 3) {
    const unsigned black = in[3] ^ flip;
    for (int i = 0; i < 3; ++i) {
      out[i] = static_cast<std::uint8_t>(((in[i] ^ flip) * black * 2 + 255) / 510);
    }
  }
}

void grey_to_rgb(const std::uint8_t* in, std::uint32_t width, std::uint8_t* out) {
  for (std::uint32_t x = 0; x < width; ++x, out += 3) out[0] = out[1] = out[2] = in[x];
}

}  // namespace

JpegDecoder::JpegDecoder() = default;
JpegDecoder::~JpegDecoder() { finish(); }

void JpegDecoder::finish() noexcept {
  if (session_ == nullptr || session_->info.mem == nullptr) return;
  truncated_ = session_->truncated;
  jpeg_destroy_decompress(&session_->info);
  session_->info.mem = nullptr;
}

void JpegDecoder::open(Bytes bytes, const DecodeOptions& options) {
  finish();
  truncated_ = false;
  if (session_ == nullptr) session_ = std::make_unique<JpegSession>();
  JpegSession& session = *session_;
  bytes_ = bytes;
  const bool opened =
      create_session(session, options) && guarded(session, [&] {
        jpeg_mem_src(&session.info, reinterpret_cast<const unsigned char*>(bytes.data()),
                     static_cast<unsigned long>(bytes.size()));
        jpeg_read_header(&session.info, TRUE);
      });
  if (!opened) throw session_error(session);
  stored_ = {session.info.image_width, session.info.image_height};
  info_ = {};
  info_.format = ImageFormat::kJpeg;
  info_.channels = static_cast<std::uint32_t>(session.info.num_components);
  info_.bit_depth = static_cast<std::uint32_t>(session.info.data_precision);
  info_.orientation = find_orientation(as_text(bytes));
  const Size shown = oriented(stored_, info_.orientation);
  info_.width = shown.width;
  info_.height = shown.height;
  check_pixels(stored_, options.max_pixels);
}

void JpegDecoder::read_rgb(std::uint8_t* out, bool grey) {
  JpegSession& session = *session_;
  jpeg_decompress_struct& info = session.info;
  const J_COLOR_SPACE space = info.jpeg_color_space;
  const bool inks = space == JCS_CMYK || space == JCS_YCCK;
  if (!inks && space != JCS_GRAYSCALE && space != JCS_YCbCr && space != JCS_RGB) {
    throw image_error(ErrorCode::kUnsupported,
                      "unsupported JPEG: " + std::to_string(info.num_components) +
                          " components of unknown meaning");
  }
  const bool luma = grey && (space == JCS_YCbCr || space == JCS_GRAYSCALE);
  const std::size_t stride = std::size_t{stored_.width} * 3;
  std::uint8_t* const other_row =
      inks || luma ? row_.reserve(std::size_t{stored_.width} * 4) : nullptr;
  const bool done = guarded(session, [&] {
    info.out_color_space = inks ? JCS_CMYK : luma ? JCS_GRAYSCALE : JCS_RGB;
    info.dct_method = JDCT_ISLOW;
    info.do_fancy_upsampling = TRUE;
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      std::uint8_t* to = out + info.output_scanline * stride;
      JSAMPROW row = other_row != nullptr ? other_row : to;
      jpeg_read_scanlines(&info, &row, 1);
      if (inks) cmyk_to_rgb(row, stored_.width, info.saw_Adobe_marker != 0, to);
      if (luma) grey_to_rgb(row, stored_.width, to);
    }
    jpeg_finish_decompress(&info);
  });
  if (!done) throw session_error(session);
  finish();
}

}  // namespace shardmill::internal
