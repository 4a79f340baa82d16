// SPDX-License-Identifier: Apache-2.0
// Images of any bytes: probed, decoded at full size, fast and exactly, whole and in part, as
// labels. One program for each format: SHARDMILL_FUZZ_IMAGE names the one whose seeds it has.
#include <shardmill/formats/error.h>
#include <shardmill/loader/decode/image.h>
#include <shardmill/loader/decode/labels.h>

#include <algorithm>

#include "tests/fuzz/fuzz.h"
#include "tests/loader/decode/make_images.h"

namespace shardmill::fuzz {

namespace {

using namespace shardmill::test;

void expect(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kDataLoss:
    case ErrorCode::kUnsupported:
    case ErrorCode::kResourceExhausted:
      return;
    default:
      fail(error.what());
  }
}

// Decodes into a buffer with a fence behind it.
void decode(ImageDecoder& decoder, Bytes image, bool part) {
  constexpr std::uint32_t kWidth = 20;
  constexpr std::uint32_t kHeight = 14;
  std::vector<std::uint8_t> out(kWidth * kHeight * 3 + 64, 0xA5);
  try {
    if (part) {
      const auto choose = [](std::uint32_t width, std::uint32_t height) {
        return ImagePart{width * 0.3, height * 0.2, width * 0.9, height * 0.7, true};
      };
      decoder.decode_part(image, choose, kWidth, kHeight, out.data());
    } else {
      decoder.decode_cover(image, kWidth, kHeight, out.data());
    }
  } catch (const Error& error) {
    expect(error);
  }
  if (std::any_of(out.end() - 64, out.end(), [](std::uint8_t byte) { return byte != 0xA5; })) {
    fail("wrote behind the image");
  }
}

// The same in one of the other forms and fits.
void decode_form(ImageDecoder& decoder, Bytes image, std::size_t number) {
  constexpr std::uint32_t kWidth = 21;
  constexpr std::uint32_t kHeight = 13;
  constexpr DType kTypes[] = {DType::kUInt8, DType::kFloat32, DType::kFloat16};
  PixelForm form;
  form.channels = static_cast<Channels>(number % 3);
  form.dtype = kTypes[number / 3 % 3];
  form.channels_first = number / 9 % 2 != 0;
  const std::uint64_t bytes = form.row(kWidth, kHeight).bytes();
  std::vector<std::byte> out(bytes + 64, std::byte{0xA5});
  const auto choose = [&](std::uint32_t width, std::uint32_t height) {
    return fit_part(static_cast<Fit>(number / 18 % 3), width, height, kWidth, kHeight);
  };
  try {
    decoder.decode_part(image, choose, kWidth, kHeight, form, out.data());
  } catch (const Error& error) {
    expect(error);
  }
  if (std::any_of(out.end() - 64, out.end(),
                  [](std::byte byte) { return byte != std::byte{0xA5}; })) {
    fail("wrote behind the image");
  }
}

}  // namespace

std::vector<std::string> seeds() {
  JpegLook progressive;
  progressive.progressive = true;
  progressive.orientation = 6;
  JpegLook grey;
  grey.components = 1;
  grey.luma_h = grey.luma_v = 1;
  JpegLook arithmetic;
  arithmetic.arithmetic = true;
  arithmetic.restart = 2;
  JpegLook restarts;
  restarts.restart = 2;
  restarts.luma_v = 1;
  JpegLook wide;
  wide.luma_h = 4;
  wide.luma_v = 2;
  std::vector<std::string> all = {make_jpeg(200, 120, 9, restarts),
                                  make_jpeg(90, 70, 8, wide),
                                  make_jpeg(60, 40, 1),
                                  make_jpeg(33, 47, 2, progressive),
                                  make_jpeg(40, 40, 3, grey),
                                  make_jpeg(50, 30, 5, arithmetic),
                                  make_png(31, 17, 6),
                                  make_webp(45, 35, 7, false),
                                  make_webp(20, 20, 8, true)};
  std::erase_if(all, [](const std::string& seed) {
    return sniff_image(as_bytes(seed)) != ImageFormat::SHARDMILL_FUZZ_IMAGE;
  });
  return all;
}

bool run(const std::string& input) {
  static ImageDecoder fast({.mode = DecodeMode::kFast, .max_pixels = 4'000'000});
  static ImageDecoder lenient({.max_pixels = 4'000'000, .allow_truncated = true});
  static LabelDecoder labels;
  static ImageDecoder exact({.mode = DecodeMode::kExact, .max_pixels = 4'000'000});
  const Bytes image = as_bytes(input);
  bool valid = true;
  try {
    probe_image(image);
  } catch (const Error& error) {
    expect(error);
    valid = false;
  }
  static std::size_t number = 0;
  for (ImageDecoder* decoder : {&fast, &exact}) {
    decode(*decoder, image, false);
    decode(*decoder, image, true);
    decode_form(*decoder, image, number++);
  }
  decode(lenient, image, false);
  try {
    labels.decode(image, 4'000'000);
  } catch (const Error& error) {
    expect(error);
  }
  try {
    lenient.decode_full(image);
  } catch (const Error& error) {
    expect(error);
  }
  try {
    exact.decode_full(image);
  } catch (const Error& error) {
    expect(error);
    valid = false;
  }
  return valid;
}

void mend(std::string&, std::uint64_t) {}

}  // namespace shardmill::fuzz
