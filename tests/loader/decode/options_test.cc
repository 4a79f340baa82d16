// SPDX-License-Identifier: Apache-2.0
// Options of the decoder: images that were cut off, orientation, transparency.
#include <shardmill/loader/decode/encoder.h>

#include "tests/loader/decode/make_images.h"
#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

constexpr std::uint32_t kWidth = 96;
constexpr std::uint32_t kHeight = 128;

std::vector<std::uint8_t> full(ImageDecoder& decoder, const std::string& image) {
  const ImageDecoder::Pixels pixels = decoder.decode_full(as_bytes(image));
  return {pixels.rgb.begin(), pixels.rgb.end()};
}

}  // namespace

TEST_CASE("Images that were cut off are shown as far as they go, if that is allowed",
          "[decode][options]") {
  JpegLook progressive;
  progressive.progressive = true;
  for (const DecodeMode mode : {DecodeMode::kFast, DecodeMode::kExact}) {
    ImageDecoder strict({.mode = mode});
    ImageDecoder lenient({.mode = mode, .allow_truncated = true});
    for (const std::string& whole :
         {make_jpeg(kWidth, kHeight, 1), make_jpeg(kWidth, kHeight, 2, progressive),
          make_png(kWidth, kHeight, 3)}) {
      const bool png = sniff_image(as_bytes(whole)) == ImageFormat::kPng;
      const std::vector<std::uint8_t> expected = full(strict, whole);
      CHECK((full(lenient, whole) == expected));
      CHECK_FALSE(lenient.was_truncated());
      const std::string cut = whole.substr(0, whole.size() * 6 / 10);
      CHECK(error_of([&] { full(strict, cut); }).code == ErrorCode::kDataLoss);
      const std::vector<std::uint8_t> some = full(lenient, cut);
      CHECK(lenient.was_truncated());
      REQUIRE(some.size() == expected.size());
      const std::size_t row = kWidth * 3;
      if (whole.find("\xff\xc2") == std::string::npos) {
        CHECK(std::equal(some.begin(), some.begin() + 30 * row, expected.begin()));
        for (std::size_t i = some.size() - 10 * row; i < some.size(); ++i) {
          REQUIRE(some[i] == (png ? 0 : 128));
        }
      }
      // Resized, too; and nothing of it is left for the next image.
      std::vector<std::uint8_t> small(24 * 32 * 3);
      lenient.decode_cover(as_bytes(cut), 24, 32, small.data());
      CHECK(lenient.was_truncated());
      CHECK(error_of([&] { strict.decode_cover(as_bytes(cut), 24, 32, small.data()); }).code ==
            ErrorCode::kDataLoss);
      CHECK((full(lenient, whole) == expected));
      CHECK_FALSE(lenient.was_truncated());
      // Without its end mark alone a JPEG is whole.
      if (!png) {
        CHECK((full(lenient, whole.substr(0, whole.size() - 2)) == expected));
        CHECK(lenient.was_truncated());
      }
      // Damage inside and cut headers stay errors.
      std::string bent = whole;
      bent[bent.size() / 2] ^= 0x55;
      bent[bent.size() / 2 + 1] = '\xff';
      if (png) CHECK(error_of([&] { full(lenient, bent); }).code == ErrorCode::kDataLoss);
      CHECK(error_of([&] { full(lenient, whole.substr(0, 20)); }).code == ErrorCode::kDataLoss);
    }
    const std::string webp = make_webp(kWidth, kHeight, 4, false);
    CHECK(error_of([&] { full(lenient, webp.substr(0, webp.size() / 2)); }).code ==
          ErrorCode::kDataLoss);
  }
}

TEST_CASE("Orientation is ignored if that is wanted", "[decode][options]") {
  ImageDecoder stored({.apply_orientation = false});
  ImageDecoder shown;
  JpegLook look;
  const std::vector<std::uint8_t> plain = full(shown, make_jpeg(kWidth, kHeight, 2, look));
  for (std::uint32_t orientation = 1; orientation <= 8; ++orientation) {
    look.orientation = orientation;
    const std::string image = make_jpeg(kWidth, kHeight, 2, look);
    CHECK((full(stored, image) == plain));
    CHECK((full(shown, image) == plain) == (orientation == 1));
    const ImageInfo info = probe_image(as_bytes(image), false);
    CHECK(info.width == kWidth);
    CHECK(info.orientation == 1);
    std::vector<std::uint8_t> one(32 * 20 * 3), two(32 * 20 * 3);
    stored.decode_cover(as_bytes(image), 32, 20, one.data());
    look.orientation = 0;
    shown.decode_cover(as_bytes(make_jpeg(kWidth, kHeight, 2, look)), 32, 20, two.data());
    CHECK(one == two);
  }
}

TEST_CASE("Transparent pixels show what is behind them, if that is wanted", "[decode][options]") {
  std::vector<std::uint8_t> rgba(std::size_t{64} * 64 * 4);
  for (std::size_t i = 0; i < rgba.size(); i += 4) {
    rgba[i] = 200;
    rgba[i + 1] = 40;
    rgba[i + 3] = i / 4 % 64 < 32 ? 51 : 255;  // the left half is a fifth there
  }
  for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kWebp}) {
    std::vector<std::byte> image;
    encode_image({rgba.data(), 64, 64, 4}, {format, 100, true}, image);
    for (const DecodeMode mode : {DecodeMode::kFast, DecodeMode::kExact}) {
      ImageDecoder decoder({.mode = mode});
      PixelForm form;
      form.blend = true;
      form.fill = {255, 255, 255, 255};
      const auto check = [&](const std::uint8_t* left, const std::uint8_t* right) {
        const int expected[] = {255 - 55 / 5, 255 - 215 / 5, 255 - 255 / 5};
        for (int c = 0; c < 3; ++c) CHECK(std::abs(left[c] - expected[c]) <= 2);
        CHECK(std::abs(right[0] - 200) <= 1);
        CHECK(std::abs(right[1] - 40) <= 1);
      };
      std::vector<std::uint8_t> out(std::size_t{64} * 64 * 3);
      auto* const bytes = reinterpret_cast<std::byte*>(out.data());
      decoder.decode_full(image, 64, 64, form, bytes);
      check(&out[3 * 8], &out[3 * 60]);
      const auto all = [](std::uint32_t width, std::uint32_t height) {
        return ImagePart{.right = double{1} * width, .bottom = double{1} * height};
      };
      decoder.decode_part(image, all, 16, 16, form, bytes);
      check(&out[3 * 2], &out[3 * 13]);
      form.channels = Channels::kGrey;
      decoder.decode_part(image, all, 16, 16, form, bytes);
      CHECK(std::abs(out[2] - (244 * 299 + 212 * 587 + 204 * 114) / 1000) <= 2);
      // Without, colours stay.
      decoder.decode_part(image, all, 16, 16, PixelForm{}, bytes);
      CHECK(std::abs(out[3 * 2] - 200) <= 1);
    }
  }
}
