// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/digest.h>
#include <shardmill/loader/decode/encoder.h>

#include <cmath>

#include "tests/loader/decode/make_images.h"
#include "tests/loader/decode/reference.h"
#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

constexpr std::uint32_t kWidth = 61;
constexpr std::uint32_t kHeight = 43;

std::vector<std::uint8_t> pixels_of(std::size_t channels) {
  const std::vector<std::uint8_t> rgb = texture(kWidth, kHeight, 3);
  std::vector<std::uint8_t> out;
  for (std::size_t n = 0; n < std::size_t{kWidth} * kHeight; ++n) {
    for (std::size_t c = 0; c < channels; ++c) {
      out.push_back(c == 3 ? static_cast<std::uint8_t>(n * 7)
                           : rgb[3 * n + (channels == 1 ? 1 : c)]);
    }
  }
  return out;
}

std::vector<std::byte> encode(const std::vector<std::uint8_t>& pixels, std::size_t channels,
                              const EncodeOptions& options) {
  std::vector<std::byte> out{std::byte{1}};  // is replaced
  encode_image({pixels.data(), kWidth, kHeight, channels}, options, out);
  return out;
}

std::vector<std::uint8_t> decode(Bytes image, std::size_t channels) {
  ImageDecoder decoder;
  PixelForm form;
  form.channels = channels == 1   ? Channels::kGrey
                  : channels == 3 ? Channels::kRgb
                                  : Channels::kRgba;
  std::vector<std::uint8_t> out(std::size_t{kWidth} * kHeight * channels);
  decoder.decode_full(image, kWidth, kHeight, form, reinterpret_cast<std::byte*>(out.data()));
  return out;
}

double psnr(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return 10 * std::log10(255.0 * 255.0 * static_cast<double>(a.size()) / sum);
}

}  // namespace

TEST_CASE("Images are encoded and are the same pixels again", "[decode][encode]") {
  const struct {
    EncodeOptions options;
    bool exact;
  } cases[] = {{{ImageFormat::kPng, 90, false}, true},
               {{ImageFormat::kWebp, 90, true}, true},
               {{ImageFormat::kWebp, 95, false}, false},
               {{ImageFormat::kJpeg, 95, false}, false},
               {{ImageFormat::kJpeg, 96, false}, false}};
  for (const auto& [options, exact] : cases) {
    for (const std::size_t channels : {1, 3, 4}) {
      if (options.format == ImageFormat::kJpeg && channels == 4) continue;
      CAPTURE(image_format_name(options.format), options.quality, channels);
      const auto pixels = pixels_of(channels);
      const auto bytes = encode(pixels, channels, options);
      CHECK(sniff_image(bytes) == options.format);
      CHECK(probe_image(bytes).width == kWidth);
      CHECK(encode(pixels, channels, options) == bytes);
      const auto again = decode(bytes, channels);
      if (exact) {
        CHECK((again == pixels));
      } else {
        CHECK(psnr(again, pixels) > 27);
      }
    }
  }
}

TEST_CASE("Quality and the sampling of colours are as asked for", "[decode][encode]") {
  const auto pixels = pixels_of(3);
  for (const ImageFormat format : {ImageFormat::kJpeg, ImageFormat::kWebp}) {
    const auto low = encode(pixels, 3, {format, 30, false});
    const auto high = encode(pixels, 3, {format, 95, false});
    CHECK(low.size() < high.size());
    CHECK(psnr(decode(low, 3), pixels) < psnr(decode(high, 3), pixels));
  }
  // Colours that change from pixel to pixel survive where chroma has full size only.
  std::vector<std::uint8_t> stripes(std::size_t{kWidth} * kHeight * 3);
  for (std::size_t n = 0; n < stripes.size() / 3; ++n)
    stripes[3 * n + (n % kWidth % 2 ? 0 : 2)] = 255;
  CHECK(psnr(decode(encode(stripes, 3, {ImageFormat::kJpeg, 95, false}), 3), stripes) < 20);
  CHECK(psnr(decode(encode(stripes, 3, {ImageFormat::kJpeg, 96, false}), 3), stripes) > 30);
}

TEST_CASE("Rows may lie apart", "[decode][encode]") {
  const auto pixels = pixels_of(3);
  constexpr std::size_t kStride = 3 * kWidth + 11;
  std::vector<std::uint8_t> apart(kStride * kHeight, 0xEE);
  for (std::size_t y = 0; y < kHeight; ++y) {
    std::copy_n(pixels.data() + y * 3 * kWidth, 3 * kWidth, apart.data() + y * kStride);
  }
  for (const ImageFormat format : {ImageFormat::kJpeg, ImageFormat::kWebp, ImageFormat::kPng}) {
    std::vector<std::byte> out;
    encode_image({apart.data(), kWidth, kHeight, 3, kStride}, {format, 90, false}, out);
    CHECK(out == encode(pixels, 3, {format, 90, false}));
  }
}

TEST_CASE("Pillow reads what was encoded as we do", "[decode][encode]") {
  if (!has_reference()) return skip("no Pillow to compare with");
  TemporaryFolder folder;
  std::vector<std::filesystem::path> files;
  for (const ImageFormat format : {ImageFormat::kJpeg, ImageFormat::kWebp, ImageFormat::kPng}) {
    for (const std::size_t channels : {1, 3}) {
      const auto bytes = encode(pixels_of(channels), channels, {format, 90, false});
      files.push_back(folder / (std::to_string(files.size()) + ".img"));
      write_text(files.back(), as_text(bytes));
    }
  }
  const auto reference = reference_full(files);
  CHECK(reference.size() == files.size());
  for (const auto& [path, pixels] : reference) {
    CAPTURE(path);
    Sha256 sha;
    const std::string file = read_text(path);
    const std::vector<std::uint8_t> ours = decode(as_bytes(file), 3);
    sha.update(std::as_bytes(std::span(ours)));
    CHECK(pixels.width == kWidth);
    CHECK(pixels.height == kHeight);
    CHECK(pixels.rgb_sha256 == sha.hex());
  }
}

TEST_CASE("What cannot be encoded is refused", "[decode][encode]") {
  const auto pixels = pixels_of(4);
  const auto refusal = [&](const PixelView& view, const EncodeOptions& options) {
    std::vector<std::byte> out;
    return error_of([&] { encode_image(view, options, out); });
  };
  const PixelView good{pixels.data(), kWidth, kHeight, 4};
  CHECK(refusal(good, {ImageFormat::kJpeg, 90, false}).code == ErrorCode::kInvalidArgument);
  CHECK(refusal(good, {ImageFormat::kGif, 90, false}).cause ==
        "gif images are not encoded, only JPEG, WebP and PNG");
  CHECK(refusal(good, {ImageFormat::kPng, 0, false}).cause == "quality 0, allowed are 1 to 100");
  CHECK(refusal({nullptr, 4, 4, 3}, {}).code == ErrorCode::kInvalidArgument);
  CHECK(refusal({pixels.data(), 0, 4, 3}, {}).code == ErrorCode::kInvalidArgument);
  const std::vector<std::uint8_t> wide(20'000);
  CHECK(refusal({wide.data(), 20'000, 1, 1}, {ImageFormat::kWebp, 90, false}).code ==
        ErrorCode::kUnsupported);
}
