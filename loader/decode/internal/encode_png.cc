// SPDX-License-Identifier: Apache-2.0
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <string>

#include "loader/decode/internal/encoders.h"
#include "loader/decode/internal/pixels.h"

namespace shardmill::internal {

namespace {

struct PngOutput {
  std::vector<std::byte>* out;
  char message[200];
};

[[noreturn]] void stop(png_structp png, png_const_charp message) {
  auto* output = static_cast<PngOutput*>(png_get_error_ptr(png));
  std::snprintf(output->message, sizeof(output->message), "%s", message);
  png_longjmp(png, 1);
}

void say_nothing(png_structp, png_const_charp) {}
void flush(png_structp) {}

void append(png_structp png, png_bytep data, std::size_t size) {
  auto* output = static_cast<PngOutput*>(png_get_io_ptr(png));
  bool done = false;
  try {
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    output->out->insert(output->out->end(), bytes, bytes + size);
    done = true;
  } catch (...) {  // nothing may be thrown through the library
  }
  if (!done) png_error(png, "out of memory");
}

int color_type(std::size_t channels) noexcept {
  return channels == 1   ? PNG_COLOR_TYPE_GRAY
         : channels == 3 ? PNG_COLOR_TYPE_RGB
                         : PNG_COLOR_TYPE_RGB_ALPHA;
}

bool write(png_structp png, png_infop info, const PixelView& pixels) noexcept {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_IHDR(png, info, pixels.width, pixels.height, 8, color_type(pixels.channels),
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  for (std::uint32_t y = 0; y < pixels.height; ++y) {
    png_write_row(png, pixels.data + y * pixels.stride);
  }
  png_write_end(png, info);
  return true;
}

}  // namespace

void encode_png(const PixelView& pixels, std::vector<std::byte>& out) {
  PngOutput output{&out, {}};
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &output, stop, say_nothing);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  bool done = false;
  if (info != nullptr) {
    png_set_write_fn(png, &output, append, flush);
    done = write(png, info, pixels);
  }
  png_destroy_write_struct(&png, &info);
  if (!done) {
    throw image_error(ErrorCode::kResourceExhausted,
                      "cannot make a PNG: " + std::string(output.message));
  }
}

}  // namespace shardmill::internal
