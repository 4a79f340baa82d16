// SPDX-License-Identifier: Apache-2.0
// Cut and flipped images: an error or pixels, never a crash, an over-read or a hang. Built with
// sanitizers this is a check of every access.
#include <string>
#include <vector>

#include "tests/loader/decode/make_images.h"
#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

std::vector<std::string> sound_images() {
  return {make_jpeg(150, 103, 1),
          make_jpeg(150, 103, 2, {.luma_h = 2, .luma_v = 1, .restart = 2}),
          make_jpeg(103, 150, 3, {.progressive = true, .orientation = 8}),
          make_jpeg(90, 80, 4, {.arithmetic = true}),
          make_jpeg(80, 90, 5, {.components = 1}),
          make_png(70, 60, 6),
          make_webp(150, 103, 7, false),
          make_webp(60, 70, 8, true)};
}

// Decodes every way; returns whether full-size decoding worked. An Error must speak of the data.
bool survives(ImageDecoder& fast, ImageDecoder& exact, const std::string& image) {
  std::vector<std::uint8_t> out(48 * 32 * 3);
  const auto check = [](const ErrorInfo& error) {
    if (error.code == ErrorCode::kInternal) {
      REQUIRE(error.cause == "nothing thrown");
      return true;
    }
    REQUIRE_FALSE(error.cause.empty());
    return false;
  };
  check(error_of([&] { probe_image(as_bytes(image)); }));
  check(error_of([&] { fast.decode_cover(as_bytes(image), 48, 32, out.data()); }));
  check(error_of([&] { exact.decode_cover(as_bytes(image), 32, 48, out.data()); }));
  return check(error_of([&] { fast.decode_full(as_bytes(image)); }));
}

struct Decoders {
  // A flipped size may be huge, which is legal but slow.
  ImageDecoder fast{DecodeOptions{.max_pixels = 4'000'000}};
  ImageDecoder exact{DecodeOptions{.mode = DecodeMode::kExact, .max_pixels = 4'000'000}};
};

}  // namespace

TEST_CASE("A truncated image is an error in every mode", "[decode]") {
  Decoders decoders;
  std::vector<std::uint8_t> out(224 * 224 * 3);
  for (const std::string& image : sound_images()) {
    CAPTURE(image.size(), image_format_name(sniff_image(as_bytes(image))));
    REQUIRE(survives(decoders.fast, decoders.exact, image));
    for (int part = 0; part < 64; ++part) {
      const std::size_t size = image.size() * static_cast<std::size_t>(part) / 64;
      const std::string cut = image.substr(0, size);
      CAPTURE(size);
      CHECK_FALSE(survives(decoders.fast, decoders.exact, cut));
      const ErrorInfo error =
          error_of([&] { decoders.fast.decode_cover(as_bytes(cut), 224, 224, out.data()); });
      CHECK(error.code == ErrorCode::kDataLoss);
    }
  }
}

TEST_CASE("Truncation is named in the decoder's own words", "[decode]") {
  ImageDecoder decoder;
  const auto cause = [&](const std::string& image, double part) {
    const auto size = static_cast<std::size_t>(static_cast<double>(image.size()) * part);
    return error_of([&] { decoder.decode_full(as_bytes(image).first(size)); }).cause;
  };
  CHECK(cause(make_jpeg(256, 256, 1), 0.6) == "truncated JPEG: Premature end of JPEG file");
  CHECK(cause(make_png(256, 256, 1), 0.6) == "truncated PNG: unexpected end of data");
  CHECK(cause(make_webp(256, 256, 1, false), 0.6).find("truncated WebP: ") == 0);
  // Cut within rows that a centre crop does not need.
  const std::string tall = make_jpeg(100, 400, 1);
  std::vector<std::uint8_t> out(64 * 64 * 3);
  const ErrorInfo error = error_of(
      [&] { decoder.decode_cover(as_bytes(tall).first(tall.size() - 40), 64, 64, out.data()); });
  CHECK(error.cause == "truncated JPEG: Premature end of JPEG file");
  const ErrorInfo whole =
      error_of([&] { decoder.decode_cover(as_bytes(tall), 64, 64, out.data()); });
  CHECK(whole.cause == "nothing thrown");
}

TEST_CASE("Flipped bytes never crash a decoder", "[decode]") {
  Decoders decoders;
  std::uint32_t random = 1;
  std::size_t damaged = 0;
  std::size_t refused = 0;
  for (const std::string& image : sound_images()) {
    for (int round = 0; round < 150; ++round) {
      std::string flipped = image;
      for (int flip = 0; flip <= round % 3; ++flip) {
        random = random * 1664525U + 1013904223U;
        // Half of the flips fall into the header, where sizes and tables are.
        const std::size_t range = (random >> 8) % 2 == 0 ? 200 : flipped.size();
        const std::size_t at = (random >> 9) % std::min(range, flipped.size());
        flipped[at] = static_cast<char>(flipped[at] ^ static_cast<char>(1 + (random >> 3) % 255));
      }
      ++damaged;
      if (!survives(decoders.fast, decoders.exact, flipped)) ++refused;
    }
  }
  CHECK(refused > damaged / 4);
}

TEST_CASE("Cut images of the zoo never crash a decoder", "[decode]") {
  const std::filesystem::path zoo = shared_path("zoo");
  if (zoo.empty()) return skip("no folder of real files");
  Decoders decoders;
  std::size_t images = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(zoo)) {
    if (!entry.is_regular_file() || entry.file_size() > 60'000) continue;
    const std::string image = read_text(entry.path());
    const ImageFormat format = sniff_image(as_bytes(image));
    if (format == ImageFormat::kUnknown || ++images % 4 != 0) continue;
    for (int part = 1; part < 64; part += 7) {
      const std::size_t size = image.size() * static_cast<std::size_t>(part) / 64;
      survives(decoders.fast, decoders.exact, image.substr(0, size));
      std::string flipped = image;
      flipped[size] = static_cast<char>(~flipped[size]);
      survives(decoders.fast, decoders.exact, flipped);
    }
  }
  CHECK(images > 100);
}
