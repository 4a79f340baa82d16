// SPDX-License-Identifier: Apache-2.0
// Parts of images: where they lie, under every orientation, mirrored or not.
#include <shardmill/loader/decode/image.h>
#include <shardmill/loader/random.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/loader/decode/make_images.h"
#include "tests/support/catch.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

using Pixels = std::vector<std::uint8_t>;

Pixels part_of(DecodeMode mode, const std::string& image, const ImagePart& part,
               std::uint32_t width, std::uint32_t height) {
  ImageDecoder decoder({.mode = mode});
  Pixels out(std::size_t{width} * height * 3);
  decoder.decode_part(
      as_bytes(image), [&](std::uint32_t, std::uint32_t) { return part; }, width, height,
      out.data());
  return out;
}

double mean_difference(const Pixels& a, const Pixels& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

Pixels mirrored(const Pixels& in, std::uint32_t width) {
  Pixels out(in.size());
  for (std::size_t i = 0; i < in.size() / 3; ++i) {
    const std::size_t row = i / width * width;
    std::memcpy(&out[3 * i], &in[3 * (row + width - 1 - i % width)], 3);
  }
  return out;
}

}  // namespace

TEST_CASE("A part at its own size is those pixels", "[decode]") {
  for (const std::string& image : {make_jpeg(90, 60, 3), make_png(90, 60, 3),
                                   make_webp(90, 60, 3, false), make_webp(90, 60, 3, true)}) {
    ImageDecoder decoder({.mode = DecodeMode::kExact});
    const ImageDecoder::Pixels full = decoder.decode_full(as_bytes(image));
    Pixels expected;
    for (std::uint32_t y = 10; y < 42; ++y) {
      const std::uint8_t* const row = full.rgb.data() + (y * 90 + 20) * 3;
      expected.insert(expected.end(), row, row + 48 * 3);
    }
    const ImagePart part{20, 10, 68, 42, false};
    CHECK(part_of(DecodeMode::kExact, image, part, 48, 32) == expected);
    CHECK(mean_difference(part_of(DecodeMode::kFast, image, part, 48, 32), expected) < 3);
    const ImagePart flipped{20, 10, 68, 42, true};
    CHECK(part_of(DecodeMode::kExact, image, flipped, 48, 32) == mirrored(expected, 48));
    CHECK(part_of(DecodeMode::kFast, image, flipped, 48, 32) ==
          mirrored(part_of(DecodeMode::kFast, image, part, 48, 32), 48));
  }
}

TEST_CASE("A part is that of the image as shown, whatever its orientation", "[decode]") {
  for (std::uint32_t orientation = 1; orientation <= 8; ++orientation) {
    JpegLook look;
    look.orientation = orientation;
    const std::string image = make_jpeg(120, 80, 5, look);
    const bool turned = orientation >= 5;
    // Off the centre in both directions, and not of the target's proportions.
    const ImagePart part = turned ? ImagePart{5, 60, 45, 110, orientation % 2 == 0}
                                  : ImagePart{60, 5, 110, 45, orientation % 2 == 0};
    const Pixels exact = part_of(DecodeMode::kExact, image, part, 24, 30);
    const Pixels fast = part_of(DecodeMode::kFast, image, part, 24, 30);
    CHECK(mean_difference(exact, fast) < 4);
    // The same part of the same image turned beforehand.
    ImageDecoder decoder({.mode = DecodeMode::kExact});
    const ImageDecoder::Pixels full = decoder.decode_full(as_bytes(image));
    CHECK(full.width == (turned ? 80 : 120));
    const ImagePart elsewhere =
        turned ? ImagePart{30, 5, 70, 55, part.flip} : ImagePart{5, 30, 55, 70, part.flip};
    CHECK(mean_difference(exact, part_of(DecodeMode::kExact, image, elsewhere, 24, 30)) > 8);
  }
}

TEST_CASE("Random parts of every kind of JPEG come close to exact decoding", "[decode]") {
  Random random(7, 0, 0);
  std::uint32_t number = 0;
  for (const auto& [across, down] : {std::pair(1, 1), {2, 1}, {2, 2}, {1, 2}, {4, 1}, {4, 2}}) {
    for (const bool progressive : {false, true}) {
      for (std::uint32_t orientation = 1; orientation <= 8; ++orientation) {
        JpegLook look{.luma_h = across, .luma_v = down, .progressive = progressive};
        look.restart = number++ % 3 == 0 ? 7 : 0;
        look.orientation = orientation;
        const std::string image = make_jpeg(331, 243, number, look);
        const ImageInfo info = probe_image(as_bytes(image));
        for (int round = 0; round < 3; ++round) {
          const auto edges = [&](std::uint32_t size) {
            const double extent = 1 + random.uniform() * (size - 1);
            const double low = random.uniform() * (size - extent);
            return std::pair(low, std::min(low + extent, double{1} * size));
          };
          const auto [left, right] = edges(info.width);
          const auto [top, bottom] = edges(info.height);
          const ImagePart part{left, top, right, bottom, round % 2 == 0};
          CAPTURE(across, down, progressive, orientation, left, top, right, bottom);
          const Pixels fast = part_of(DecodeMode::kFast, image, part, 40, 30);
          CHECK(mean_difference(fast, part_of(DecodeMode::kExact, image, part, 40, 30)) < 4);
        }
      }
    }
  }
}
