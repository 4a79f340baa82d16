// SPDX-License-Identifier: Apache-2.0
#include <shardmill/loader/decode/image.h>

#include <cstring>
#include <string>
#include <vector>

#include "loader/decode/internal/exif.h"
#include "tests/loader/decode/make_images.h"
#include "tests/support/catch.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

using Rgb = std::vector<std::uint8_t>;

Rgb full(ImageDecoder& decoder, const std::string& image) {
  const ImageDecoder::Pixels pixels = decoder.decode_full(as_bytes(image));
  REQUIRE(pixels.rgb.size() == std::size_t{pixels.width} * pixels.height * 3);
  return {pixels.rgb.begin(), pixels.rgb.end()};
}

Rgb cover(ImageDecoder& decoder, const std::string& image, std::uint32_t width,
          std::uint32_t height) {
  Rgb out(std::size_t{width} * height * 3);
  decoder.decode_cover(as_bytes(image), width, height, out.data());
  return out;
}

double mean_difference(const Rgb& a, const Rgb& b) {
  REQUIRE(a.size() == b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(int{a[i]} - int{b[i]});
  return sum / static_cast<double>(a.size());
}

}  // namespace

TEST_CASE("Images are told apart by content", "[decode]") {
  CHECK(sniff_image(as_bytes(make_jpeg(8, 8, 1))) == ImageFormat::kJpeg);
  CHECK(sniff_image(as_bytes(make_png(8, 8, 1))) == ImageFormat::kPng);
  CHECK(sniff_image(as_bytes(make_webp(8, 8, 1, true))) == ImageFormat::kWebp);
  CHECK(sniff_image(as_bytes("GIF89a")) == ImageFormat::kGif);
  CHECK(sniff_image(as_bytes("BM....")) == ImageFormat::kBmp);
  CHECK(sniff_image(as_bytes(std::string_view("II*\0", 4))) == ImageFormat::kTiff);
  CHECK(sniff_image(as_bytes("RIFF....WAVE")) == ImageFormat::kUnknown);
  CHECK(sniff_image({}) == ImageFormat::kUnknown);
  CHECK(image_format_name(ImageFormat::kWebp) == "webp");
}

TEST_CASE("What is no image is refused by name", "[decode]") {
  ImageDecoder decoder;
  std::uint8_t out[3];
  const auto cause = [&](std::string_view bytes) {
    const ErrorInfo probed = error_of([&] { probe_image(as_bytes(bytes)); });
    const ErrorInfo full = error_of([&] { decoder.decode_full(as_bytes(bytes)); });
    const ErrorInfo small = error_of([&] { decoder.decode_cover(as_bytes(bytes), 1, 1, out); });
    CHECK(probed.cause == full.cause);
    CHECK(probed.cause == small.cause);
    CHECK(full.path.empty());
    CHECK(full.place.empty());
    return std::pair(full.code, full.cause);
  };
  CHECK(cause("") == std::pair(ErrorCode::kDataLoss, std::string("empty image (0 bytes)")));
  CHECK(cause("GIF89a....") ==
        std::pair(ErrorCode::kUnsupported, std::string("GIF images are not supported")));
  CHECK(cause("text") ==
        std::pair(ErrorCode::kDataLoss, std::string("not an image: begins with 74 65 78 74")));
}

TEST_CASE("Lossless images come back as they were", "[decode]") {
  ImageDecoder decoder;
  const Rgb want = texture(61, 37, 5);
  CHECK(full(decoder, make_png(61, 37, 5)) == want);
  CHECK(full(decoder, make_webp(61, 37, 5, true)) == want);
  CHECK(cover(decoder, make_png(61, 37, 5), 61, 37) == want);
  ImageDecoder exact({.mode = DecodeMode::kExact});
  CHECK(cover(exact, make_png(61, 37, 5), 61, 37) == want);
}

TEST_CASE("probe_image reads the header alone", "[decode]") {
  const std::string jpeg = make_jpeg(300, 200, 1, {.orientation = 6});
  const ImageInfo info = probe_image(as_bytes(jpeg).first(jpeg.size() / 2));
  CHECK(info.format == ImageFormat::kJpeg);
  CHECK(info.width == 200);
  CHECK(info.height == 300);
  CHECK(info.channels == 3);
  CHECK(info.bit_depth == 8);
  CHECK(info.orientation == 6);
  CHECK(probe_image(as_bytes(make_png(30, 20, 1))).width == 30);
  CHECK(probe_image(as_bytes(make_webp(30, 20, 1, false))).height == 20);
}

TEST_CASE("EXIF orientation turns whole and resized images alike", "[decode]") {
  ImageDecoder fast;
  ImageDecoder exact({.mode = DecodeMode::kExact});
  const std::string plain = make_jpeg(96, 64, 3);
  const Rgb stored = full(fast, plain);
  // For each orientation, where the stored pixel (x, y) of a 96x64 image is shown.
  struct Rule {
    std::uint32_t orientation;
    bool swaps, mirror_x, mirror_y;
  };
  const Rule rules[] = {{1, false, false, false}, {2, false, true, false}, {3, false, true, true},
                        {4, false, false, true},  {5, true, false, false}, {6, true, true, false},
                        {7, true, true, true},    {8, true, false, true}};
  for (const Rule& rule : rules) {
    CAPTURE(rule.orientation);
    const std::string image = make_jpeg(96, 64, 3, {.orientation = rule.orientation});
    const std::uint32_t width = rule.swaps ? 64 : 96;
    const std::uint32_t height = rule.swaps ? 96 : 64;
    Rgb want(stored.size());
    for (std::uint32_t y = 0; y < 64; ++y) {
      for (std::uint32_t x = 0; x < 96; ++x) {
        std::uint32_t to_x = rule.swaps ? y : x;
        std::uint32_t to_y = rule.swaps ? x : y;
        if (rule.mirror_x) to_x = width - 1 - to_x;
        if (rule.mirror_y) to_y = height - 1 - to_y;
        std::memcpy(&want[(std::size_t{to_y} * width + to_x) * 3],
                    &stored[(std::size_t{y} * 96 + x) * 3], 3);
      }
    }
    CHECK(full(fast, image) == want);
    CHECK(cover(exact, image, width, height) == want);
    CHECK(mean_difference(cover(fast, image, width, height), want) < 1.5);
    CHECK(mean_difference(cover(fast, image, 40, 24), cover(exact, image, 40, 24)) < 1.5);
  }
}

TEST_CASE("exif_orientation survives any bytes", "[decode]") {
  using internal::exif_orientation;
  for (const bool big_endian : {false, true}) {
    const std::string exif = make_exif(7, big_endian);
    CHECK(exif_orientation(as_bytes(exif)) == 7);
    for (std::size_t size = 0; size < exif.size(); ++size) {
      const std::uint32_t value = exif_orientation(as_bytes(exif).first(size));
      CHECK((value == 1 || value == 7));
    }
    for (std::size_t i = 0; i < exif.size(); ++i) {
      std::string damaged = exif;
      damaged[i] = '\xff';
      const std::uint32_t value = exif_orientation(as_bytes(damaged));
      CHECK((value >= 1 && value <= 8));
    }
  }
  CHECK(exif_orientation(as_bytes(make_exif(9, true))) == 1);
}

TEST_CASE("Every sampling and coding decodes fast as exact", "[decode]") {
  ImageDecoder fast;
  ImageDecoder exact({.mode = DecodeMode::kExact});
  struct Sampling {
    int h, v;
  };
  for (const Sampling sampling : {Sampling{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {4, 2}}) {
    for (const bool progressive : {false, true}) {
      for (const std::uint32_t size : {16U, 50U, 120U, 260U}) {
        CAPTURE(sampling.h, sampling.v, progressive, size);
        const std::string image = make_jpeg(
            301, 203, 9, {.luma_h = sampling.h, .luma_v = sampling.v, .progressive = progressive});
        CHECK(mean_difference(cover(fast, image, size, size), cover(exact, image, size, size)) < 3);
      }
    }
  }
  const std::string huffman = make_jpeg(301, 203, 9);
  CHECK(full(fast, make_jpeg(301, 203, 9, {.arithmetic = true})) == full(fast, huffman));
  CHECK(full(fast, make_jpeg(301, 203, 9, {.progressive = true})) == full(fast, huffman));
  CHECK(full(fast, make_jpeg(301, 203, 9, {.restart = 3})) == full(fast, huffman));
}

TEST_CASE("Grey images become RGB", "[decode]") {
  ImageDecoder fast;
  const std::string image = make_jpeg(101, 67, 4, {.components = 1, .luma_h = 1, .luma_v = 1});
  CHECK(probe_image(as_bytes(image)).channels == 1);
  const Rgb small = cover(fast, image, 32, 32);
  for (const Rgb& rgb : {full(fast, image), small}) {
    for (std::size_t i = 0; i < rgb.size(); i += 3) {
      REQUIRE(rgb[i] == rgb[i + 1]);
      REQUIRE(rgb[i] == rgb[i + 2]);
    }
  }
  ImageDecoder exact({.mode = DecodeMode::kExact});
  CHECK(mean_difference(small, cover(exact, image, 32, 32)) < 1);
}

TEST_CASE("Extreme shapes decode", "[decode]") {
  ImageDecoder fast;
  ImageDecoder exact({.mode = DecodeMode::kExact});
  struct Shape {
    std::uint32_t width, height;
  };
  for (const Shape shape : {Shape{1, 1}, {1, 300}, {300, 1}, {2, 3}, {17, 9}, {2000, 4}}) {
    CAPTURE(shape.width, shape.height);
    for (const std::string& image :
         {make_jpeg(shape.width, shape.height, 2), make_png(shape.width, shape.height, 2),
          make_webp(shape.width, shape.height, 2, false)}) {
      CHECK(cover(fast, image, 33, 20).size() == 33 * 20 * 3);
      CHECK(mean_difference(cover(fast, image, 33, 20), cover(exact, image, 33, 20)) < 6);
      CHECK(cover(fast, image, 1, 1).size() == 3);
    }
  }
}

TEST_CASE("An image leaves nothing behind for the next", "[decode]") {
  // Without its quantisation tables a JPEG cannot be decoded, also after one that had the same.
  const std::string whole = make_jpeg(64, 64, 1);
  std::string stripped = whole;
  for (std::size_t at; (at = stripped.find("\xff\xdb")) != stripped.npos;) {
    const std::size_t length = static_cast<unsigned char>(stripped[at + 2]) * 256U +
                               static_cast<unsigned char>(stripped[at + 3]);
    stripped.erase(at, length + 2);
  }
  ImageDecoder decoder;
  CHECK_FALSE(full(decoder, whole).empty());
  const ErrorInfo error = error_of([&] { decoder.decode_full(as_bytes(stripped)); });
  CHECK(error.code == ErrorCode::kDataLoss);
  CHECK(error.cause.find("Quantization table 0x00 was not defined") != std::string::npos);

  // And the same bytes give the same pixels in whatever order they come.
  std::vector<std::string> images = {whole,
                                     make_jpeg(500, 300, 2, {.luma_v = 1}),
                                     make_png(90, 70, 3),
                                     make_webp(400, 300, 4, false),
                                     make_jpeg(33, 500, 5, {.progressive = true}),
                                     make_jpeg(1600, 1200, 6, {.orientation = 5})};
  for (std::size_t i = 0; i < images.size() * 3; ++i) {
    const std::string& image = images[(i * 5 + i / 6) % images.size()];
    ImageDecoder fresh;
    CHECK(cover(decoder, image, 64, 48) == cover(fresh, image, 64, 48));
    error_of([&] { decoder.decode_full(as_bytes(image).first(image.size() / 2)); });
  }
}

TEST_CASE("Limits hold before anything is allocated", "[decode]") {
  ImageDecoder decoder({.max_pixels = 99});
  for (const std::string& image : {make_jpeg(10, 10, 1), make_png(10, 10, 1),
                                   make_webp(10, 10, 1, false), make_webp(10, 10, 1, true)}) {
    std::uint8_t out[3];
    const ErrorInfo full = error_of([&] { decoder.decode_full(as_bytes(image)); });
    CHECK(full.code == ErrorCode::kResourceExhausted);
    CHECK(full.cause == "image of 10x10 pixels is larger than the limit of 99");
    CHECK(error_of([&] { decoder.decode_cover(as_bytes(image), 1, 1, out); }).cause == full.cause);
    CHECK(probe_image(as_bytes(image)).width == 10);
  }
  const std::string progressive = make_jpeg(64, 64, 1, {.progressive = true});
  ImageDecoder few_scans({.max_scans = 3});
  const ErrorInfo scans = error_of([&] { few_scans.decode_full(as_bytes(progressive)); });
  CHECK(scans.code == ErrorCode::kResourceExhausted);
  CHECK(scans.cause.find("too many scans") != std::string::npos);
}
