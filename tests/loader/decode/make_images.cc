// SPDX-License-Identifier: Apache-2.0
#include "tests/loader/decode/make_images.h"

#include <cstdio>
#include <cstdlib>
// jpeglib.h needs FILE and size_t.
#include <jpeglib.h>
#include <png.h>
#include <webp/encode.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace shardmill::test {

std::vector<std::uint8_t> texture(std::uint32_t width, std::uint32_t height, unsigned seed) {
  std::vector<std::uint8_t> rgb(std::size_t{width} * height * 3);
  std::uint32_t noise = seed * 2654435761U + 12345U;
  for (std::uint32_t y = 0; y < height; ++y) {
    for (std::uint32_t x = 0; x < width; ++x) {
      for (std::uint32_t c = 0; c < 3; ++c) {
        noise = noise * 1664525U + 1013904223U;
        const double wave = 60 * std::sin(x * 0.021 + seed + c) +
                            40 * std::cos(y * 0.037 * (c + 1)) +
                            15 * std::sin((x + 2.0 * y) * 0.19);
        const double value = 128 + wave + static_cast<double>(noise >> 28);
        rgb[(std::size_t{y} * width + x) * 3 + c] =
            static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0));
      }
    }
  }
  return rgb;
}

std::string make_exif(std::uint32_t orientation, bool big_endian) {
  const auto number = [&](std::uint32_t value, int size) {
    std::string bytes;
    for (int i = 0; i < size; ++i) {
      const int shift = 8 * (big_endian ? size - 1 - i : i);
      bytes.push_back(static_cast<char>(value >> shift & 255));
    }
    return bytes;
  };
  return std::string("Exif\0\0", 6) + (big_endian ? "MM" : "II") + number(42, 2) + number(8, 4) +
         number(1, 2) + number(0x0112, 2) + number(3, 2) + number(1, 4) + number(orientation, 2) +
         number(0, 2) + number(0, 4);
}

std::string make_jpeg(std::uint32_t width, std::uint32_t height, unsigned seed,
                      const JpegLook& look) {
  const std::vector<std::uint8_t> rgb = texture(width, height, seed);
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &data, &size);
  info.image_width = width;
  info.image_height = height;
  info.input_components = look.components;
  info.in_color_space = look.components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 85, TRUE);
  info.comp_info[0].h_samp_factor = look.luma_h;
  info.comp_info[0].v_samp_factor = look.luma_v;
  if (look.progressive) jpeg_simple_progression(&info);
  info.arith_code = look.arithmetic ? TRUE : FALSE;
  info.restart_interval = static_cast<unsigned>(look.restart);
  jpeg_start_compress(&info, TRUE);
  if (look.orientation != 0) {
    const std::string exif = make_exif(look.orientation, seed % 2 == 0);
    jpeg_write_marker(&info, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(exif.data()),
                      static_cast<unsigned>(exif.size()));
  }
  std::vector<std::uint8_t> row(std::size_t{width} * 3);
  while (info.next_scanline < height) {
    const std::size_t stride = std::size_t{width} * 3;
    const std::uint8_t* from = &rgb[info.next_scanline * stride];
    for (std::size_t i = 0; i < stride; ++i) {
      if (look.components == 3) row[i] = from[i];
      if (look.components == 1 && i % 3 == 0) row[i / 3] = from[i];
    }
    JSAMPROW pointer = row.data();
    jpeg_write_scanlines(&info, &pointer, 1);
  }
  jpeg_finish_compress(&info);
  std::string out(reinterpret_cast<const char*>(data), size);
  jpeg_destroy_compress(&info);
  std::free(data);
  return out;
}

std::string make_png(std::uint32_t width, std::uint32_t height, unsigned seed) {
  const std::vector<std::uint8_t> rgb = texture(width, height, seed);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = PNG_FORMAT_RGB;
  std::string out(rgb.size() + 4096 + height, '\0');
  png_alloc_size_t size = out.size();
  if (png_image_write_to_memory(&image, out.data(), &size, 0, rgb.data(), 0, nullptr) == 0) {
    throw std::runtime_error("png_image_write_to_memory failed");
  }
  out.resize(size);
  return out;
}

std::string make_webp(std::uint32_t width, std::uint32_t height, unsigned seed, bool lossless) {
  const std::vector<std::uint8_t> rgb = texture(width, height, seed);
  const int w = static_cast<int>(width);
  const int h = static_cast<int>(height);
  std::uint8_t* data = nullptr;
  const std::size_t size = lossless ? WebPEncodeLosslessRGB(rgb.data(), w, h, 3 * w, &data)
                                    : WebPEncodeRGB(rgb.data(), w, h, 3 * w, 80, &data);
  std::string out(reinterpret_cast<const char*>(data), size);
  WebPFree(data);
  return out;
}

}  // namespace shardmill::test
