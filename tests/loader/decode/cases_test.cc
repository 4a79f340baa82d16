// SPDX-License-Identifier: Apache-2.0
// Faults that people met with images, from the shared collection; numbers are its ids.
#include <shardmill/loader/decode/image.h>

#include <stdexcept>

#include "tests/loader/decode/make_images.h"
#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

struct Image {
  std::uint32_t width = 0, height = 0;
  std::vector<std::uint8_t> rgb;
  std::vector<int> pixel(std::size_t n) const {
    return {rgb[n * 3], rgb[n * 3 + 1], rgb[n * 3 + 2]};
  }
};

Image decode(const std::filesystem::path& file) {
  const std::string bytes = read_text(file);
  ImageDecoder decoder;
  const ImageDecoder::Pixels pixels = decoder.decode_full(as_bytes(bytes));
  return {pixels.width, pixels.height, {pixels.rgb.begin(), pixels.rgb.end()}};
}

ErrorInfo refusal(const std::filesystem::path& file) {
  return error_of([&] { decode(file); });
}

}  // namespace

TEST_CASE("Case 05: a half-downloaded JPEG is an error", "[decode][cases]") {
  TemporaryFolder folder;
  if (!make_case("05", folder.path())) return skip("no collection of cases");
  CHECK(decode(folder / "05/full.jpg").width == 256);
  for (const char* name : {"05/cut60.jpg", "05/no_eoi.jpg"}) {
    CHECK(refusal(folder / name).cause == "truncated JPEG: Premature end of JPEG file");
  }
  CHECK(refusal(folder / "05/header_only.jpg").code == ErrorCode::kDataLoss);
  // The lenient option: what is there, grey below, and the image says so.
  ImageDecoder lenient({.allow_truncated = true});
  const std::string cut = read_text(folder / "05/cut60.jpg");
  const std::string no_end = read_text(folder / "05/no_eoi.jpg");
  const ImageDecoder::Pixels some = lenient.decode_full(as_bytes(cut));
  CHECK(lenient.was_truncated());
  REQUIRE(some.height == 256);
  for (std::size_t i = std::size_t{3} * 256 * 200; i < some.rgb.size(); ++i) {
    REQUIRE(some.rgb[i] == 128);
  }
  const Image whole = decode(folder / "05/full.jpg");
  const ImageDecoder::Pixels all = lenient.decode_full(as_bytes(no_end));
  CHECK(std::equal(all.rgb.begin(), all.rgb.end(), whole.rgb.begin(), whole.rgb.end()));
}

TEST_CASE("Case 16: CMYK and YCCK become RGB, with and without Adobe's mark", "[decode][cases]") {
  TemporaryFolder folder;
  try {
    if (!make_case("16", folder.path())) return skip("no collection of cases");
  } catch (const std::runtime_error&) {
    // Its last file needs ImageMagick.
  }
  for (const char* name : {"16/adobe_cmyk.jpg", "16/plain_cmyk.jpg", "16/adobe_ycck.jpg"}) {
    if (!std::filesystem::exists(folder / name)) continue;
    CAPTURE(name);
    const Image image = decode(folder / name);
    for (std::size_t n = 0; n < 256; n += 51) {
      const std::vector<int> pixel = image.pixel(n);
      CHECK(std::abs(pixel[0] - 204) <= 1);
      CHECK(std::abs(pixel[1] - 153) <= 1);
      CHECK(std::abs(pixel[2] - 102) <= 1);
    }
  }
  CHECK(std::filesystem::exists(folder / "16/plain_cmyk.jpg"));
}

TEST_CASE("Case 31: 16 bits are scaled to 8, not cut off", "[decode][cases]") {
  TemporaryFolder folder;
  if (!make_case("31", folder.path())) return skip("no collection of cases");
  const int want[] = {0, 1, 1, 128, 255};  // v * 255 / 65535, rounded
  const Image grey = decode(folder / "31/g16.png");
  const Image rgb = decode(folder / "31/rgb16.png");
  for (std::size_t n = 0; n < 5; ++n) {
    CHECK(grey.pixel(n) == std::vector<int>(3, want[n]));
    CHECK(rgb.pixel(n)[0] == want[n]);
    CHECK(rgb.pixel(n)[2] == 1);
  }
  CHECK(probe_image(as_bytes(read_text(folder / "31/g16.png"))).bit_depth == 16);
}

TEST_CASE("Case 38: the content decides, not the name", "[decode][cases]") {
  TemporaryFolder folder;
  if (!make_case("38", folder.path())) return skip("no collection of cases");
  const Image png = decode(folder / "38/n02105855_x.JPEG");
  CHECK(png.width == 32);
  CHECK(png.height == 16);
  CHECK(png.pixel(100) == std::vector<int>{255, 0, 0});
  CHECK(decode(folder / "38/jpeg.png").width == 32);
  CHECK(refusal(folder / "38/gif.jpg").cause == "GIF images are not supported");
}

TEST_CASE("Case 67: animated and transparent WebP", "[decode][cases]") {
  TemporaryFolder folder;
  if (!make_case("67", folder.path())) return skip("no collection of cases");
  CHECK(decode(folder / "67/anim.webp").pixel(17) == std::vector<int>{255, 0, 0});
  CHECK(decode(folder / "67/alpha0.webp").pixel(17) == std::vector<int>{255, 0, 0});
  CHECK(decode(folder / "67/lossy.webp").width == 8);
}

TEST_CASE("Case 71: too many scans are refused quickly", "[decode][cases]") {
  TemporaryFolder folder;
  if (!make_case("71", folder.path())) return skip("no collection of cases");
  CHECK(decode(folder / "71/scans_normal.jpg").width == 4096);
  const ErrorInfo error = refusal(folder / "71/scans2000.jpg");
  CHECK(error.code == ErrorCode::kResourceExhausted);
  CHECK(error.cause.find("too many scans") == 0);
}
