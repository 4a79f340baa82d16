// SPDX-License-Identifier: Apache-2.0
// Forms and fits of images through batches, and the same for any number of workers.
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>
#include <shardmill/loader/decode/image.h>
#include <shardmill/loader/loader.h>

#include <algorithm>
#include <cmath>

#include "tests/loader/decode/make_images.h"
#include "tests/loader/loader_test_data.h"
#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

constexpr int kSamples = 24;

std::string image_of(int number) {
  const auto width = static_cast<std::uint32_t>(60 + 7 * (number % 5));
  const auto height = static_cast<std::uint32_t>(50 + 11 * (number % 4));
  const auto seed = static_cast<unsigned>(number);
  JpegLook look;
  look.orientation = static_cast<std::uint32_t>(number % 9);
  look.progressive = number % 7 == 6;
  switch (number % 3) {
    case 0:
      return make_jpeg(width, height, seed, look);
    case 1:
      return make_webp(width, height, seed, number % 2 == 0);
    default:
      return make_png(width, height, seed);
  }
}

std::string make_data(const TemporaryFolder& folder) {
  const std::string path = (folder / "data.tar").string();
  const auto writer = find_format("tar").create(path, {});
  for (int number = 0; number < kSamples; ++number) {
    Sample sample("s" + std::to_string(100 + number));
    sample.add("img.jpg", image_of(number));
    sample.add("same.png", make_png(30, 20, static_cast<unsigned>(number)));
    writer->write(sample.view());
  }
  writer->close();
  return path;
}

PixelForm form_of(Channels channels, bool first, DType dtype) {
  PixelForm form = imagenet_form(dtype);
  form.channels = channels;
  form.channels_first = first;
  form.fill = {114, 114, 114, 255};
  return form;
}

std::vector<Output> outputs() {
  const PixelForm rgb = form_of(Channels::kRgb, true, DType::kFloat32);
  const PixelForm half = form_of(Channels::kRgb, true, DType::kFloat16);
  const PixelForm grey = form_of(Channels::kGrey, false, DType::kUInt8);
  const PixelForm rgba = form_of(Channels::kRgba, true, DType::kUInt8);
  const PixelForm last = form_of(Channels::kRgb, false, DType::kFloat32);
  return {image_output("plain", 32, 24, "img.jpg"),
          with_pixels(image_output("rgb", 32, 24, "img.jpg"), rgb),
          with_pixels(image_output("half", 32, 24, "img.jpg"), half),
          with_pixels(image_output("grey", 32, 24, "img.jpg"), grey),
          with_pixels(image_output("rgba", 32, 24, "img.jpg"), rgba),
          with_pixels(random_crop_output("crop", 24, 24, {}, "img.jpg"), last),
          with_pixels(fitted_image_output("stretched", 40, 20, Fit::kStretch, "img.jpg"), last),
          with_pixels(fitted_image_output("boxed", 40, 40, Fit::kLetterbox, "img.jpg"), rgba),
          with_pixels(image_output("own", 0, 0, "same.png"), rgb),
          with_pixels(padded_image_output("padded", 128, 128, {.value = -1.5}, "img.jpg"), last),
          with_pixels(padded_image_output("packed", 128, 128, {.multiple = 8}, "img.jpg"), grey)};
}

LoaderOptions options(int workers) {
  LoaderOptions options;
  options.outputs = outputs();
  options.batch_size = 6;
  options.shuffle = Shuffle::kFull;
  options.seed = 9;
  options.num_workers = workers;
  return options;
}

void check_refused(const std::string& path, const Output& output, const std::string& words) {
  LoaderOptions options;
  options.outputs = {output};
  CHECK_THROWS_WITH(Loader(path, options), Catch::Contains(words));
}

}  // namespace

TEST_CASE("Images of every form are what the decoder gives, for any number of workers",
          "[loader]") {
  TemporaryFolder folder;
  const std::string path = make_data(folder);
  Loader reference(path, options(0));
  const std::vector<std::string> expected = load_all(reference, {0, 1});
  for (const int workers : {1, 4}) {
    Loader loader(path, options(workers));
    CHECK(load_all(loader, {0, 1}) == expected);
  }
  ImageDecoder decoder;
  int rows = 0;
  for (const Batch& batch : reference.epoch(0)) {
    for (std::size_t row = 0; row < batch.size(); ++row, ++rows) {
      const std::string image = image_of(static_cast<int>(batch.samples()[row]));
      for (const Output& output : outputs()) {
        if (output.crop || output.padding || output.name == "own") continue;
        const BatchOutput& made = batch[output.name];
        REQUIRE(made.row == output.row);
        const std::size_t first = output.pixels.channels_first ? 1 : 0;
        const auto height = static_cast<std::uint32_t>(output.row.shape[first]);
        const auto width = static_cast<std::uint32_t>(output.row.shape[first + 1]);
        std::vector<std::byte> want(output.row.bytes());
        decoder.decode_part(
            as_bytes(image),
            [&](std::uint32_t w, std::uint32_t h) {
              return fit_part(output.fit, w, h, width, height);
            },
            width, height, output.pixels, want.data());
        CAPTURE(output.name);
        REQUIRE(std::ranges::equal(made.data.subspan(row * want.size(), want.size()), want));
      }
      const ImageDecoder::Pixels pixels = decoder.decode_full(as_bytes(image));
      REQUIRE(batch["padded"].sizes[2 * row] == pixels.height);
      REQUIRE(batch["packed"].sizes[2 * row + 1] == pixels.width);
      const float* const padded = batch["padded"].as<float>().data() + row * 128 * 128 * 3;
      for (const auto& [x, y] : {std::pair(0U, 0U), {pixels.width - 1, pixels.height - 1}}) {
        const float value =
            static_cast<float>(pixels.rgb[(std::size_t{y} * pixels.width + x) * 3]) / 255;
        REQUIRE(padded[(y * 128 + x) * 3] == Approx((value - 0.485F) / 0.229F).margin(1e-5));
      }
      REQUIRE(padded[128 * 128 * 3 - 1] == -1.5F);
    }
  }
  CHECK(rows == kSamples);
  CHECK(reference.options().outputs[8].row == ArrayType{DType::kFloat32, {3, 20, 30}});
}

TEST_CASE("Statistics say how images were decoded", "[loader]") {
  TemporaryFolder folder;
  const std::string path = make_data(folder);
  for (const DecodeMode mode : {DecodeMode::kFast, DecodeMode::kExact}) {
    LoaderOptions with = options(1);
    with.decode = mode;
    Loader loader(path, with);
    Batch batch;
    REQUIRE(loader.next(batch));
    CHECK(loader.stats().decode == mode);
  }
  CHECK(decode_mode_name(DecodeMode::kFast) == "fast");
  CHECK(decode_mode_name(DecodeMode::kExact) == "exact");
}

TEST_CASE("A form that no image has is refused", "[loader]") {
  TemporaryFolder folder;
  const std::string path = make_data(folder);
  const Output output = image_output("image", 32, 24, "img.jpg");
  PixelForm form;
  form.dtype = DType::kInt32;
  check_refused(path, with_pixels(output, form), "uint8, float32 or float16");
  form = imagenet_form();
  form.std[1] = 0;
  check_refused(path, with_pixels(output, form), "std 0 of channel 1");
  form = imagenet_form();
  form.mean[2] = NAN;
  check_refused(path, with_pixels(output, form), "of channel 2");
  check_refused(path,
                with_pixels(padded_image_output("image", 64, 64, {}, "img.jpg"), imagenet_form()),
                "channels_first");
  Output other = with_pixels(output, imagenet_form());
  other.row.shape = {32, 24, 3};
  check_refused(path, other, "with_pixels()");
  other = fitted_image_output("image", 32, 24, Fit::kLetterbox, "img.jpg");
  other.crop = RandomCrop{};
  check_refused(path, other, ".fit");
}
