// SPDX-License-Identifier: Apache-2.0
// Forms of pixels, and how images are fitted: the same pictures, whatever they are written as.
#include <png.h>
#include <shardmill/loader/decode/image.h>
#include <webp/encode.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "loader/decode/internal/pixel_kernels.h"
#include "tests/loader/decode/make_images.h"
#include "tests/loader/decode/reference.h"
#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill;
using namespace shardmill::internal;
using namespace shardmill::test;

namespace {

using Values = std::vector<std::byte>;

constexpr std::uint32_t kWidth = 37;
constexpr std::uint32_t kHeight = 22;

Values decoded(ImageDecoder& decoder, const std::string& image, const PixelForm& form,
               const ChoosePart& choose, std::uint32_t width = kWidth,
               std::uint32_t height = kHeight) {
  Values out(form.row(width, height).bytes());
  decoder.decode_part(as_bytes(image), choose, width, height, form, out.data());
  return out;
}

// The value at a place, as a number, whatever the form.
double value_at(const Values& values, const PixelForm& form, std::uint32_t x, std::uint32_t y,
                std::size_t channel, std::uint32_t width = kWidth, std::uint32_t height = kHeight) {
  const std::size_t count = form.channel_count();
  const std::size_t at = form.channels_first ? (channel * height + y) * width + x
                                             : (std::size_t{y} * width + x) * count + channel;
  const std::byte* const from = values.data() + at * dtype_size(form.dtype);
  if (form.dtype == DType::kUInt8) return std::to_integer<int>(*from);
  if (form.dtype == DType::kFloat32) {
    float value = 0;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof(bits));
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double size =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

std::vector<std::uint8_t> with_alpha(std::uint32_t width, std::uint32_t height) {
  const std::vector<std::uint8_t> rgb = texture(width, height, 4);
  std::vector<std::uint8_t> rgba;
  for (std::size_t i = 0; i < rgb.size() / 3; ++i) {
    rgba.insert(rgba.end(), rgb.begin() + static_cast<std::ptrdiff_t>(3 * i),
                rgb.begin() + static_cast<std::ptrdiff_t>(3 * i + 3));
    const std::size_t x = i % width;
    rgba.push_back(static_cast<std::uint8_t>(x < width / 3 ? 0 : x > width / 2 ? 255 : i % 256));
  }
  return rgba;
}

std::string make_alpha_png(std::uint32_t width, std::uint32_t height) {
  const std::vector<std::uint8_t> rgba = with_alpha(width, height);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = PNG_FORMAT_RGBA;
  std::string out(rgba.size() + 4096 + height, '\0');
  png_alloc_size_t size = out.size();
  REQUIRE(png_image_write_to_memory(&image, out.data(), &size, 0, rgba.data(), 0, nullptr) != 0);
  out.resize(size);
  return out;
}

std::string make_alpha_webp(std::uint32_t width, std::uint32_t height, bool lossless) {
  const std::vector<std::uint8_t> rgba = with_alpha(width, height);
  const int w = static_cast<int>(width);
  const int h = static_cast<int>(height);
  std::uint8_t* data = nullptr;
  const std::size_t size = lossless ? WebPEncodeLosslessRGBA(rgba.data(), w, h, 4 * w, &data)
                                    : WebPEncodeRGBA(rgba.data(), w, h, 4 * w, 90, &data);
  std::string out(reinterpret_cast<const char*>(data), size);
  WebPFree(data);
  return out;
}

std::vector<std::string> images() {
  std::vector<std::string> all = {make_png(90, 61, 3),
                                  make_jpeg(90, 61, 3),
                                  make_jpeg(90, 61, 3, {.components = 1}),
                                  make_jpeg(90, 61, 3, {.progressive = true}),
                                  make_webp(90, 61, 3, false),
                                  make_webp(90, 61, 3, true),
                                  make_alpha_png(90, 61),
                                  make_alpha_webp(90, 61, false),
                                  make_alpha_webp(90, 61, true)};
  for (std::uint32_t orientation = 2; orientation <= 8; ++orientation) {
    JpegLook look;
    look.orientation = orientation;
    all.push_back(make_jpeg(90, 61, 3, look));
  }
  return all;
}

std::vector<PixelForm> forms() {
  std::vector<PixelForm> all;
  for (const Channels channels : {Channels::kRgb, Channels::kGrey, Channels::kRgba}) {
    for (const bool first : {false, true}) {
      for (const DType dtype : {DType::kUInt8, DType::kFloat32, DType::kFloat16}) {
        PixelForm form = imagenet_form(dtype);
        form.channels = channels;
        form.channels_first = first;
        form.mean[3] = 0.25F;
        form.std[3] = 0.5F;
        form.fill = {10, 200, 60, 128};
        all.push_back(form);
      }
    }
  }
  return all;
}

ChoosePart fitting(Fit fit, std::uint32_t width = kWidth, std::uint32_t height = kHeight) {
  return [=](std::uint32_t image_width, std::uint32_t image_height) {
    return fit_part(fit, image_width, image_height, width, height);
  };
}

}  // namespace

TEST_CASE("Every pixel kernel equals the portable one", "[decode]") {
  const std::vector<std::uint8_t> pixels = texture(64, 16, 7);
  Normalisation by;
  for (std::size_t i = 0; i < kPattern; ++i) {
    by.scale[i] = 0.017F / static_cast<float>(i % 3 + 1);
    by.bias[i] = -2.1F + 0.3F * static_cast<float>(i % 3);
  }
  const PixelKernels& want = portable_pixel_kernels();
  const PixelKernels& got = best_pixel_kernels();
  for (const std::size_t count : {0U, 1U, 7U, 8U, 23U, 24U, 25U, 100U, 224U}) {
    std::vector<float> floats[2], planes[2][4];
    std::vector<std::uint16_t> halves[2], half_planes[2][4];
    for (const int side : {0, 1}) {
      const PixelKernels& kernels = side == 0 ? want : got;
      floats[side].assign(count + 1, 7);
      halves[side].assign(count + 1, 7);
      kernels.to_float(pixels.data(), count, by, floats[side].data());
      kernels.to_half(pixels.data(), count, by, halves[side].data());
      for (const std::size_t channels : {3U, 4U}) {
        float* to[4];
        std::uint16_t* half_to[4];
        for (std::size_t c = 0; c < 4; ++c) {
          planes[side][c].assign(count + 1, 7);
          half_planes[side][c].assign(count + 1, 7);
          to[c] = planes[side][c].data();
          half_to[c] = half_planes[side][c].data();
        }
        kernels.split_float(pixels.data(), count, channels, by, to);
        kernels.split_half(pixels.data(), count, channels, by, half_to);
        for (std::size_t c = channels; c < 4; ++c)
          CHECK(planes[side][c] == std::vector<float>(count + 1, 7));
      }
    }
    CHECK(floats[0] == floats[1]);
    CHECK(halves[0] == halves[1]);
    for (std::size_t c = 0; c < 4; ++c) {
      CHECK(planes[0][c] == planes[1][c]);
      CHECK(half_planes[0][c] == half_planes[1][c]);
      CHECK(planes[1][c].back() == 7);  // nothing is written beyond the end
    }
    if (count > 0) {
      CHECK(planes[1][1][count - 1] ==
            static_cast<float>(pixels[4 * (count - 1) + 1]) * by.scale[1] + by.bias[1]);
    }
  }
}

TEST_CASE("Half-precision numbers are the nearest, ties to even", "[decode]") {
  CHECK(half_of(0) == 0);
  CHECK(half_of(-0.0F) == 0x8000);
  CHECK(half_of(1) == 0x3c00);
  CHECK(half_of(-2) == 0xc000);
  CHECK(half_of(65504) == 0x7bff);
  CHECK(half_of(65519) == 0x7bff);
  CHECK(half_of(65520) == 0x7c00);
  CHECK(half_of(1e9F) == 0x7c00);
  CHECK(half_of(0x1p-24F) == 1);
  CHECK(half_of(0x1p-25F) == 0);  // a tie
  CHECK(half_of(0x1.8p-24F) == 2);
  CHECK(half_of(0x1p-14F) == 0x0400);
  CHECK(half_of(1 + 0x1p-11F) == 0x3c00);  // a tie
  CHECK(half_of(1 + 0x3p-11F) == 0x3c02);  // a tie
  CHECK(half_of(1 + 0x1.2p-11F) == 0x3c01);
  CHECK((half_of(std::numeric_limits<float>::quiet_NaN()) & 0x7fff) > 0x7c00);
}

TEST_CASE("Pixels are the same in every form", "[decode]") {
  for (const DecodeMode mode : {DecodeMode::kFast, DecodeMode::kExact}) {
    ImageDecoder decoder({.mode = mode});
    std::size_t number = 0;
    for (const std::string& image : images()) {
      for (const Fit fit : {Fit::kStretch, Fit::kLetterbox}) {
        const bool flip = number++ % 2 == 0;
        const auto choose = [&](std::uint32_t width, std::uint32_t height) {
          ImagePart part = fit_part(fit, width, height, kWidth, kHeight);
          part.flip = flip;
          return part;
        };
        for (const PixelForm& form : forms()) {
          PixelForm plain;  // bytes, channels last
          plain.channels = form.channels;
          plain.fill = form.fill;
          const Values want = decoded(decoder, image, plain, choose);
          const Values got = decoded(decoder, image, form, choose);
          CAPTURE(number, form.channels_first, form.channel_count(), dtype_name(form.dtype));
          double most = 0;
          for (std::uint32_t y = 0; y < kHeight; ++y) {
            for (std::uint32_t x = 0; x < kWidth; ++x) {
              for (std::size_t c = 0; c < form.channel_count(); ++c) {
                double value = value_at(want, plain, x, y, c);
                if (form.dtype != DType::kUInt8) {
                  value = (value / 255 - form.mean[c]) / form.std[c];
                }
                most = std::max(most, std::abs(value_at(got, form, x, y, c) - value));
              }
            }
          }
          CHECK(most <= (form.dtype == DType::kUInt8     ? 0
                         : form.dtype == DType::kFloat32 ? 2e-6
                                                         : 2e-3));
        }
      }
    }
  }
}

TEST_CASE("Images without alpha are opaque, and have the same colours with it", "[decode]") {
  ImageDecoder decoder;
  PixelForm with;
  with.channels = Channels::kRgba;
  for (const std::string& image : {make_png(90, 61, 3), make_jpeg(90, 61, 3),
                                   make_webp(90, 61, 3, false), make_webp(90, 61, 3, true)}) {
    const Values rgba = decoded(decoder, image, with, fitting(Fit::kCover));
    const Values rgb = decoded(decoder, image, {}, fitting(Fit::kCover));
    for (std::size_t i = 0; i < rgb.size() / 3; ++i) {
      REQUIRE(std::memcmp(&rgba[4 * i], &rgb[3 * i], 3) == 0);
      REQUIRE(rgba[4 * i + 3] == std::byte{255});
    }
  }
}

TEST_CASE("Alpha is kept", "[decode]") {
  PixelForm form;
  form.channels = Channels::kRgba;
  const std::vector<std::uint8_t> stored = with_alpha(90, 61);
  ImageDecoder decoder;
  Values out(form.row(90, 61).bytes());
  decoder.decode_full(as_bytes(make_alpha_png(90, 61)), 90, 61, form, out.data());
  CHECK(std::memcmp(out.data(), stored.data(), stored.size()) == 0);
  for (const std::string& image : {make_alpha_webp(90, 61, true), make_alpha_webp(90, 61, false)}) {
    decoder.decode_full(as_bytes(image), 90, 61, form, out.data());
    for (std::size_t i = 3; i < stored.size(); i += 4) {
      REQUIRE(out[i] == static_cast<std::byte>(stored[i]));
    }
  }
  if (!has_reference()) return skip("no Pillow");
  // Resized, colours count as much as they are opaque; exactly as Pillow does it.
  TemporaryFolder folder;
  write_text(folder / "a.png", make_alpha_png(90, 61));
  const CommandResult result = run_command(
      "/usr/bin/python3 -c 'import sys; from PIL import Image; "
      "sys.stdout.buffer.write(Image.open(sys.argv[1]).resize((37, 22), Image.BILINEAR)"
      ".tobytes())' '" +
      (folder / "a.png").string() + "'");
  REQUIRE(result.status == 0);
  ImageDecoder exact({.mode = DecodeMode::kExact});
  const std::string image = read_text(folder / "a.png");
  const Values resized = decoded(exact, image, form, fitting(Fit::kStretch));
  REQUIRE(result.out.size() == resized.size());
  CHECK(std::memcmp(result.out.data(), resized.data(), resized.size()) == 0);
  const Values fast = decoded(decoder, image, form, fitting(Fit::kStretch));
  for (std::size_t i = 0; i < fast.size(); ++i) {
    const int alpha = std::to_integer<int>(resized[i / 4 * 4 + 3]);
    const int apart = std::to_integer<int>(fast[i]) - std::to_integer<int>(resized[i]);
    if (alpha > 64 || i % 4 == 3) REQUIRE(std::abs(apart) <= 6);
  }
}

TEST_CASE("Grey is the stored luma, or that of the colours", "[decode]") {
  PixelForm grey;
  grey.channels = Channels::kGrey;
  ImageDecoder decoder;
  Values out(std::size_t{90} * 61);
  const std::string png = make_png(90, 61, 3);
  decoder.decode_full(as_bytes(png), 90, 61, grey, out.data());
  const ImageDecoder::Pixels colours = decoder.decode_full(as_bytes(png));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint8_t* const rgb = &colours.rgb[3 * i];
    REQUIRE(std::abs(0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] -
                     std::to_integer<int>(out[i])) <= 0.51);
  }
  // A grey JPEG holds the luma of the same picture: its first component is what is asked for.
  for (const bool progressive : {false, true}) {
    const std::string colour = make_jpeg(90, 61, 3, {.progressive = progressive});
    decoder.decode_full(as_bytes(colour), 90, 61, grey, out.data());
    const ImageDecoder::Pixels shown = decoder.decode_full(as_bytes(colour));
    double difference = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::uint8_t* const rgb = &shown.rgb[3 * i];
      difference +=
          std::abs(0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] - std::to_integer<int>(out[i]));
    }
    CHECK(difference / static_cast<double>(out.size()) < 1);
    ImageDecoder exact({.mode = DecodeMode::kExact});
    const Values fast = decoded(decoder, colour, grey, fitting(Fit::kCover));
    const Values slow = decoded(exact, colour, grey, fitting(Fit::kCover));
    for (std::size_t i = 0; i < fast.size(); ++i) {
      REQUIRE(std::abs(std::to_integer<int>(fast[i]) - std::to_integer<int>(slow[i])) <= 3);
    }
  }
}

TEST_CASE("A letterbox holds the whole image inside a border", "[decode]") {
  PixelForm form;
  form.fill = {1, 2, 3, 255};
  for (const DecodeMode mode : {DecodeMode::kFast, DecodeMode::kExact}) {
    ImageDecoder decoder({.mode = mode});
    for (const std::string& image : images()) {
      const ImageInfo info = probe_image(as_bytes(image));
      for (const auto& [width, height] :
           {std::pair(64U, 64U), {200U, 31U}, {20U, 90U}, {64U, 43U}}) {
        const ImagePart part = fit_part(Fit::kLetterbox, info.width, info.height, width, height);
        REQUIRE((part.out_width == width || part.out_height == height));
        const double wide = double{1} * part.out_width / info.width;
        const double high = double{1} * part.out_height / info.height;
        REQUIRE(std::abs(wide - high) <= 0.51 / std::min(info.width, info.height));
        const Values whole =
            decoded(decoder, image, form, fitting(Fit::kLetterbox, width, height), width, height);
        const Values inside =
            decoded(decoder, image, form, fitting(Fit::kStretch, part.out_width, part.out_height),
                    part.out_width, part.out_height);
        for (std::uint32_t y = 0; y < height; ++y) {
          for (std::uint32_t x = 0; x < width; ++x) {
            const bool image_here =
                x - part.out_left < part.out_width && y - part.out_top < part.out_height;
            for (std::size_t c = 0; c < 3; ++c) {
              const double want = image_here
                                      ? value_at(inside, form, x - part.out_left, y - part.out_top,
                                                 c, part.out_width, part.out_height)
                                      : static_cast<double>(c + 1);
              REQUIRE(value_at(whole, form, x, y, c, width, height) == want);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("An image at full size goes into the upper left", "[decode]") {
  ImageDecoder decoder;
  for (const std::string& image : images()) {
    const ImageInfo info = probe_image(as_bytes(image));
    const ImageDecoder::Pixels pixels = decoder.decode_full(as_bytes(image));
    const std::vector<std::uint8_t> want(pixels.rgb.begin(), pixels.rgb.end());
    PixelForm form;
    Values out(form.row(100, 95).bytes(), std::byte{9});
    decoder.decode_full(as_bytes(image), 100, 95, form, out.data());
    for (std::uint32_t y = 0; y < 95; ++y) {
      for (std::uint32_t x = 0; x < 100; ++x) {
        for (std::size_t c = 0; c < 3; ++c) {
          const bool inside = x < info.width && y < info.height;
          const int value = inside ? want[(std::size_t{y} * info.width + x) * 3 + c] : 9;
          REQUIRE(value_at(out, form, x, y, c, 100, 95) == value);
        }
      }
    }
  }
}
