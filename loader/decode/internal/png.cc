// SPDX-License-Identifier: Apache-2.0
#include "loader/decode/internal/png.h"

#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>

#include "loader/decode/internal/exif.h"

namespace shardmill::internal {

namespace {

// What libpng's callbacks share. Only plain data: the jump of an error passes no destructor.
struct Session {
  png_structp png;
  png_infop info;
  const std::byte* data;
  std::size_t size;
  std::size_t at;
  bool truncated;
  char message[200];
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* session = static_cast<Session*>(png_get_error_ptr(png));
  std::snprintf(session->message, sizeof(session->message), "%s", message);
  png_longjmp(png, 1);
}

// What libpng only warns of (text, profiles, a palette index too high) leaves the pixels whole.
void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep out, std::size_t size) {
  auto* session = static_cast<Session*>(png_get_io_ptr(png));
  if (size > session->size - session->at) {
    session->truncated = true;
    png_error(png, "unexpected end of data");
  }
  std::memcpy(out, session->data + session->at, size);
  session->at += size;
}

// Destroys libpng's objects at the end of a scope.
class SessionCloser {
 public:
  explicit SessionCloser(Session& session) : session_(session) {}
  ~SessionCloser() { png_destroy_read_struct(&session_.png, &session_.info, nullptr); }
  SessionCloser(const SessionCloser&) = delete;
  SessionCloser& operator=(const SessionCloser&) = delete;

 private:
  Session& session_;
};

bool create(Session& session, Bytes bytes) {
  session = {};
  session.data = bytes.data();
  session.size = bytes.size();
  session.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &session, on_error, on_warning);
  if (session.png == nullptr) return false;
  session.info = png_create_info_struct(session.png);
  if (session.info == nullptr) return false;
  png_set_read_fn(session.png, &session, on_read);
  return true;
}

bool read_header(Session& session) noexcept {
  if (setjmp(png_jmpbuf(session.png)) != 0) return false;
  png_read_info(session.png, session.info);
  return true;
}

// Reads all rows as libpng was told to.
void read_rows(png_structp png, png_infop info, std::uint8_t* out, std::size_t stride,
               std::uint32_t height) {
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  if (png_get_rowbytes(png, info) != stride) png_error(png, "unexpected row size");
  for (int pass = 0; pass < passes; ++pass) {
    for (std::uint32_t y = 0; y < height; ++y) png_read_row(png, out + y * stride, nullptr);
  }
  png_read_end(png, nullptr);
}

bool read_labels(Session& session, std::uint8_t* out, std::size_t stride,
                 std::uint32_t height) noexcept {
  png_structp png = session.png;
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_packing(png);  // a byte for 1, 2 and 4 bits
  png_set_swap(png);     // 16 bits little-endian
  read_rows(png, session.info, out, stride, height);
  return true;
}

bool read_pixels(Session& session, std::uint8_t* out, std::size_t stride, std::uint32_t height,
                 bool alpha) noexcept {
  png_structp png = session.png;
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_expand(png);  // palette to RGB, 1, 2 and 4 bit grey to 8
  png_set_scale_16(png);
  png_set_gray_to_rgb(png);
  if (alpha) {
    png_set_add_alpha(png, 0xff, PNG_FILLER_AFTER);  // where there is none
  } else {
    png_set_strip_alpha(png);
  }
  read_rows(png, session.info, out, stride, height);
  return true;
}

Error session_error(const Session& session) {
  const std::string words = session.message;
  return session.truncated ? image_error(ErrorCode::kDataLoss, "truncated PNG: " + words)
                           : image_error(ErrorCode::kDataLoss, "corrupt PNG: " + words);
}

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// ImageMagick keeps EXIF as text: a name and a length on lines of their own, then hexadecimal.
std::uint32_t raw_profile_orientation(std::string_view text) {
  for (int line = 0; line < 3; ++line) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) return 1;
    text.remove_prefix(end + 1);
  }
  std::string bytes;
  int high = -1;
  for (const char c : text) {
    const int digit = hex_digit(c);
    if (digit < 0) continue;
    if (high >= 0) bytes.push_back(static_cast<char>(high * 16 + digit));
    high = high >= 0 ? -1 : digit;
  }
  return exif_orientation(as_bytes(bytes));
}

// Some programs say the orientation in an XMP packet only.
std::uint32_t xmp_orientation(std::string_view text) noexcept {
  constexpr std::string_view kName = "tiff:Orientation";
  std::size_t at = text.find(kName);
  if (at == text.npos) return 1;
  at = text.find_first_not_of("=\"'> ", at + kName.size());
  if (at == text.npos) return 1;
  const char digit = text[at];
  return digit >= '1' && digit <= '8' ? static_cast<std::uint32_t>(digit - '0') : 1;
}

std::uint32_t orientation_of(const Session& session) {
  png_bytep exif = nullptr;
  png_uint_32 size = 0;
  if (png_get_eXIf_1(session.png, session.info, &size, &exif) != 0 && exif != nullptr) {
    return exif_orientation(std::as_bytes(std::span<const png_byte>(exif, size)));
  }
  png_textp texts = nullptr;
  int count = 0;
  png_get_text(session.png, session.info, &texts, &count);
  std::uint32_t orientation = 1;
  for (int i = 0; i < count && orientation == 1; ++i) {
    const std::string_view key = texts[i].key;
    const std::size_t length =
        texts[i].text_length != 0 ? texts[i].text_length : texts[i].itxt_length;
    const std::string_view text(texts[i].text, length);
    if (key == "Raw profile type exif" || key == "Raw profile type APP1") {
      orientation = raw_profile_orientation(text);
    } else if (key == "XML:com.adobe.xmp") {
      orientation = xmp_orientation(text);
    }
  }
  return orientation;
}

std::uint32_t stored_channels(int color_type) noexcept {
  switch (color_type) {
    case PNG_COLOR_TYPE_GRAY_ALPHA:
      return 2;
    case PNG_COLOR_TYPE_RGB:
      return 3;
    case PNG_COLOR_TYPE_RGB_ALPHA:
      return 4;
    default:
      return 1;
  }
}

Size size_of(const Session& session) noexcept {
  return {png_get_image_width(session.png, session.info),
          png_get_image_height(session.png, session.info)};
}

// An eXIf chunk may also follow the pixels.
std::uint32_t trailing_orientation(const Session& session) noexcept {
  constexpr std::size_t kSignature = 8, kHeader = 8, kChecksum = 4;
  std::size_t at = kSignature;
  while (at < session.size && session.size - at >= kHeader + kChecksum) {
    const auto* header = reinterpret_cast<const unsigned char*>(session.data + at);
    const std::size_t size = png_get_uint_32(header);
    if (size > session.size - at - kHeader - kChecksum) return 1;
    if (std::memcmp(header + 4, "eXIf", 4) == 0) {
      return exif_orientation({session.data + at + kHeader, size});
    }
    at += kHeader + size + kChecksum;
  }
  return 1;
}

ImageInfo info_of(const Session& session) {
  ImageInfo info;
  info.format = ImageFormat::kPng;
  info.channels = stored_channels(png_get_color_type(session.png, session.info));
  info.bit_depth = png_get_bit_depth(session.png, session.info);
  info.orientation = orientation_of(session);
  if (info.orientation == 1) info.orientation = trailing_orientation(session);
  const Size shown = oriented(size_of(session), info.orientation);
  info.width = shown.width;
  info.height = shown.height;
  return info;
}

void open(Session& session, Bytes bytes) {
  if (!create(session, bytes)) {
    throw image_error(ErrorCode::kResourceExhausted, "out of memory for a PNG");
  }
  if (!read_header(session)) throw session_error(session);
}

}  // namespace

ImageInfo probe_png(Bytes bytes) {
  Session session{};
  const SessionCloser closer(session);
  open(session, bytes);
  return info_of(session);
}

bool read_png(Bytes bytes, const DecodeOptions& options, std::size_t channels, PixelBuffer& buffer,
              ImageInfo& info, Size& stored) {
  Session session{};
  const SessionCloser closer(session);
  open(session, bytes);
  stored = size_of(session);
  check_pixels(stored, options.max_pixels);
  info = info_of(session);
  std::uint8_t* out = buffer.reserve(stored.pixels() * channels);
  const std::size_t stride = stored.width * channels;
  if (options.allow_truncated) std::memset(out, 0, stride * stored.height);
  if (read_pixels(session, out, stride, stored.height, channels == 4)) return true;
  if (!options.allow_truncated || !session.truncated) throw session_error(session);
  return false;
}

void read_png_labels(Bytes bytes, std::uint64_t max_pixels, PixelBuffer& buffer,
                     LabelImage& labels) {
  Session session{};
  const SessionCloser closer(session);
  open(session, bytes);
  const Size size = size_of(session);
  check_pixels(size, max_pixels);
  const ImageInfo info = info_of(session);
  if (info.channels != 1) {
    throw image_error(ErrorCode::kUnsupported,
                      "labels of " + std::to_string(info.channels) + " channels, they have one",
                      "save masks as palette or grey PNGs");
  }
  const std::size_t bytes_each = info.bit_depth == 16 ? 2 : 1;
  const std::size_t stride = size.width * bytes_each;
  std::uint8_t* const out = buffer.reserve(stride * size.height);
  if (!read_labels(session, out, stride, size.height)) throw session_error(session);
  labels.type.dtype = bytes_each == 2 ? DType::kUInt16 : DType::kUInt8;
  labels.type.shape = {size.height, size.width};
  labels.data = {reinterpret_cast<const std::byte*>(out), stride * size.height};
  labels.orientation = info.orientation;
}

}  // namespace shardmill::internal
