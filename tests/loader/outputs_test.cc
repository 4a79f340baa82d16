// SPDX-License-Identifier: Apache-2.0
// Every kind of output: right values, the same for any workers, errors that name the sample.
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>
#include <shardmill/loader/decode/image.h>
#include <shardmill/loader/loader.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <numeric>
#include <set>

#include "tests/loader/decode/make_images.h"
#include "tests/loader/loader_test_data.h"
#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

constexpr std::size_t kSamples = 57;

std::size_t token_count(std::size_t number) { return number * 5 % 23; }
std::uint32_t width_of(std::size_t number) { return 8 + static_cast<std::uint32_t>(number % 7); }
std::uint32_t height_of(std::size_t number) { return 5 + static_cast<std::uint32_t>(number % 4); }

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// Samples with images of several sizes, scalars, token sequences and a field that some lack.
void write_varied(const std::filesystem::path& path) {
  const auto writer = find_format("tar").create(path, {});
  for (std::size_t number = 0; number < kSamples; ++number) {
    char key[16];
    std::snprintf(key, sizeof key, "v%03zu", number);
    Sample sample(key);
    sample.add("png", make_png(width_of(number), height_of(number), static_cast<unsigned>(number)));
    sample.add("score", " " + std::to_string(0.25 * static_cast<double>(number)) + "\n");
    std::vector<std::uint16_t> tokens(token_count(number));
    std::iota(tokens.begin(), tokens.end(), static_cast<std::uint16_t>(number * 100));
    const ArrayType type{DType::kUInt16, {tokens.size()}};
    sample.add("ids.npy", bytes_of(tokens), &type);
    sample.add("raw", bytes_of(tokens));
    if (number % 3 != 1) sample.add("txt", number % 3 == 0 ? "" : "text " + std::to_string(number));
    writer->write(sample.view());
  }
  writer->close();
}

LoaderOptions with_outputs(std::vector<Output> outputs, int workers) {
  LoaderOptions options;
  options.outputs = std::move(outputs);
  options.batch_size = 10;
  options.num_workers = workers;
  options.seed = 3;
  return options;
}

std::string message_of(const std::string& path, const LoaderOptions& options) {
  try {
    Loader loader(path, options);
    Batch batch;
    while (loader.next(batch)) {
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("Scalars, tokens and text, fixed and padded", "[outputs]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  write_varied(path);
  const std::vector<Output> outputs = {
      scalar_output("score", "score"),
      scalar_output("exact", "score", DType::kFloat64),
      padded_tokens_output("ids", "ids.npy", 22, {.multiple = 0, .value = -1}),
      padded_tokens_output("raw", "raw", 22, {.multiple = 8, .value = 9}, DType::kUInt16),
      optional_output(bytes_output("text", "txt")),
      optional_output(list_output("list", "txt"))};
  std::vector<std::string> expected;
  for (const int workers : {0, 1, 4}) {
    Loader loader(path, with_outputs(outputs, workers));
    std::vector<std::string> batches;
    for (const Batch& batch : loader.epoch(0)) {
      const BatchOutput& ids = batch["ids"];
      const BatchOutput& raw = batch["raw"];
      const BatchOutput& text = batch["text"];
      const BatchOutput& list = batch["list"];
      std::size_t longest = 0;
      for (const std::uint64_t number : batch.samples()) {
        longest = std::max(longest, token_count(number));
      }
      REQUIRE(ids.row == ArrayType{DType::kInt64, {22}});
      REQUIRE(raw.row ==
              ArrayType{DType::kUInt16, {std::min<std::size_t>(22, (longest + 7) / 8 * 8)}});
      for (std::size_t row = 0; row < batch.size(); ++row) {
        const std::uint64_t number = batch.samples()[row];
        CHECK(batch.keys()[row] ==
              "v" + std::string(number < 10 ? "00" : "0") + std::to_string(number));
        CHECK(batch["score"].as<float>()[row] == 0.25f * static_cast<float>(number));
        CHECK(batch["exact"].as<double>()[row] == 0.25 * static_cast<double>(number));
        const std::size_t count = token_count(number);
        REQUIRE(ids.sizes[row] == static_cast<std::int64_t>(count));
        REQUIRE(raw.sizes[row] == static_cast<std::int64_t>(count));
        for (std::size_t i = 0; i < 22; ++i) {
          const std::int64_t token = i < count ? static_cast<std::int64_t>(number * 100 + i) : -1;
          REQUIRE(ids.as<std::int64_t>()[row * 22 + i] == token);
        }
        const std::size_t length = raw.row.shape[0];
        for (std::size_t i = 0; i < length; ++i) {
          REQUIRE(raw.as<std::uint16_t>()[row * length + i] == (i < count ? number * 100 + i : 9));
        }
        const std::string words = number % 3 == 2 ? "text " + std::to_string(number) : "";
        CHECK(text.text(row) == words);
        CHECK(list.text(row) == words);
        CHECK(text.present[row] == (number % 3 != 1 ? 1 : 0));  // absent is not empty
        CHECK(list.present[row] == text.present[row]);
      }
      std::string all = fingerprint(batch);
      batches.push_back(all.substr(0, all.find("|list")));  // a list's gaps are nobody's business
    }
    REQUIRE(batches.size() == 6);
    if (expected.empty()) expected = batches;
    CHECK(batches == expected);
  }
}

TEST_CASE("Images at their own size, padded to a maximum or a multiple", "[outputs]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  write_varied(path);
  ImageDecoder decoder;
  for (const std::uint64_t multiple : {0, 4}) {
    std::vector<std::string> expected;
    for (const int workers : {0, 3}) {
      Loader loader(
          path,
          with_outputs({padded_image_output("image", 14, 9, {.multiple = multiple, .value = 7})},
                       workers));
      std::vector<std::string> batches;
      for (const Batch& batch : loader.epoch(0)) {
        const BatchOutput& images = batch["image"];
        std::uint64_t height = 9;
        std::uint64_t width = 14;
        if (multiple > 0) {
          height = width = 0;
          for (const std::uint64_t number : batch.samples()) {
            height = std::max<std::uint64_t>(height, (height_of(number) + 3) / 4 * 4);
            width = std::max<std::uint64_t>(width, (width_of(number) + 3) / 4 * 4);
          }
          height = std::min<std::uint64_t>(height, 9);
          width = std::min<std::uint64_t>(width, 14);
        }
        REQUIRE(images.row.shape == std::vector<std::uint64_t>{height, width, 3});
        for (std::size_t row = 0; row < batch.size(); ++row) {
          const std::uint64_t number = batch.samples()[row];
          REQUIRE(images.sizes[2 * row] == height_of(number));
          REQUIRE(images.sizes[2 * row + 1] == width_of(number));
          const std::string png =
              make_png(width_of(number), height_of(number), static_cast<unsigned>(number));
          const ImageDecoder::Pixels pixels = decoder.decode_full(as_bytes(png));
          for (std::uint64_t y = 0; y < height; ++y) {
            for (std::uint64_t x = 0; x < width * 3; ++x) {
              const std::byte found = images.data[(row * height + y) * width * 3 + x];
              const bool inside = y < pixels.height && x < pixels.width * 3;
              const std::uint8_t wanted = inside ? pixels.rgb[y * pixels.width * 3 + x] : 7;
              REQUIRE(std::to_integer<int>(found) == wanted);
            }
          }
        }
        batches.push_back(fingerprint(batch));
      }
      if (expected.empty()) expected = batches;
      CHECK(batches == expected);
    }
  }
}

TEST_CASE("A value that does not fit names the sample, both shapes and the ways out", "[outputs]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  write_varied(path);
  for (const int workers : {0, 2}) {
    CHECK_THAT(message_of(path, with_outputs({image_output("image", 0, 0)}, workers)),
               Catch::Contains("sample \"v001\"") && Catch::Contains("uint8 (6, 9, 3)") &&
                   Catch::Contains("uint8 (5, 8, 3) like sample \"v000\"") &&
                   Catch::Contains("padded_image_output"));
    CHECK_THAT(message_of(path, with_outputs({padded_image_output("image", 10, 9)}, workers)),
               Catch::Contains("sample \"v003\"") && Catch::Contains("at most uint8 (9, 10, 3)"));
    CHECK_THAT(message_of(path, with_outputs({tokens_output("ids", "ids.npy", 5)}, workers)),
               Catch::Contains("sample \"v000\"") && Catch::Contains("uint16 (0)") &&
                   Catch::Contains("int64 (5)") && Catch::Contains("padded_tokens_output"));
    CHECK_THAT(
        message_of(path, with_outputs({padded_tokens_output("ids", "ids.npy", 12)}, workers)),
        Catch::Contains("sample \"v003\" field \"ids.npy\"") && Catch::Contains("uint16 (15)"));
    Output cut = padded_tokens_output("ids", "ids.npy", 12);
    cut.truncate = true;
    CHECK(message_of(path, with_outputs({cut}, workers)) == "no error");
    CHECK_THAT(message_of(path, with_outputs({array_output("ids", "ids.npy")}, workers)),
               Catch::Contains("sample \"v001\"") && Catch::Contains("like sample \"v000\""));
    CHECK_THAT(
        message_of(path, with_outputs({scalar_output("score", "score", DType::kInt32)}, workers)),
        Catch::Contains("sample \"v000\"") && Catch::Contains("not a decimal number of int32"));
    CHECK_THAT(message_of(path, with_outputs(
                                    {padded_tokens_output("ids", "ids.npy", 22, {}, DType::kUInt8)},
                                    workers)),
               Catch::Contains("sample \"v003\"") && Catch::Contains("does not fit into uint8"));
    CHECK_THAT(
        message_of(path, with_outputs({bytes_output("text", "txt")}, workers)),
        Catch::Contains("sample \"v001\"") && Catch::Contains("declare the output as optional"));
  }
  CHECK(message_of(path, with_outputs({image_output("image", 6, 6)}, 0)) == "no error");
}

TEST_CASE("Absent fields leave zeros or padding and a mask", "[outputs]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  {
    const auto writer = find_format("tar").create(path, {});
    for (int number = 0; number < 20; ++number) {
      Sample sample("s" + std::to_string(100 + number));
      sample.add("bin", "x");
      if (number % 2 == 0) {
        sample.add("cls", std::to_string(number + 1));
        const std::vector<std::int32_t> tokens(3, number);
        sample.add("ids", bytes_of(tokens));
        sample.add("png", make_png(4, 4, 1));
      }
      writer->write(sample.view());
    }
    writer->close();
  }
  for (const int workers : {0, 2}) {
    Loader loader(
        path,
        with_outputs(
            {optional_output(class_output()),
             optional_output(padded_tokens_output("ids", "ids", 4, {.value = -5}, DType::kInt32)),
             optional_output(padded_tokens_output("batch", "ids", 4, {.multiple = 1, .value = -5},
                                                  DType::kInt32)),
             optional_output(image_output("image", 2, 2))},
            workers));
    for (const std::uint64_t epoch : {0, 1}) {
      for (Batch& batch : loader.epoch(epoch)) {
        for (std::size_t row = 0; row < batch.size(); ++row) {
          const auto number = static_cast<std::int32_t>(batch.samples()[row]);
          const bool there = number % 2 == 0;
          CHECK(batch["label"].present[row] == (there ? 1 : 0));
          CHECK(batch["label"].as<std::int64_t>()[row] == (there ? number + 1 : 0));
          CHECK(batch["ids"].as<std::int32_t>()[row * 4] == (there ? number : -5));
          CHECK(batch["ids"].as<std::int32_t>()[row * 4 + 3] == -5);
          CHECK(batch["ids"].sizes[row] == (there ? 3 : 0));
          CHECK(batch["batch"].as<std::int32_t>()[row * 3 + 2] == (there ? number : -5));
          CHECK(batch["batch"].row.shape == std::vector<std::uint64_t>{3});
          if (!there) CHECK(batch["image"].data[row * 12] == std::byte{0});
        }
        for (const BatchOutput& output : batch.outputs()) {  // the next one must write all of it
          std::memset(output.data.data(), 0x55, output.data.size());
        }
      }
    }
  }
}

TEST_CASE("A function sees the rows of outputs declared before it", "[outputs]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  write_varied(path);
  const Output brightened =
      computed_output("mean", {DType::kFloat32, {}}, [](const RowContext& context) {
        const std::span<std::byte> image = context.row_of("image");
        float sum = 0;
        for (std::byte& value : image) {
          sum += static_cast<float>(std::to_integer<int>(value));
          value = std::byte{255};
        }
        const float mean = sum / static_cast<float>(image.size());
        std::memcpy(context.row.data(), &mean, sizeof mean);
      });
  Loader plain(path, with_outputs({image_output("image", 4, 4)}, 0));
  Loader loader(path, with_outputs({image_output("image", 4, 4), brightened}, 2));
  Batch expected;
  for (const Batch& batch : loader.epoch(0)) {
    REQUIRE(plain.next(expected));
    for (std::size_t row = 0; row < batch.size(); ++row) {
      float sum = 0;
      for (const std::byte value : expected["image"].data.subspan(row * 48, 48)) {
        sum += static_cast<float>(std::to_integer<int>(value));
      }
      CHECK(batch["mean"].as<float>()[row] == sum / 48);
    }
    CHECK(batch["image"].data[0] == std::byte{255});
  }
  CHECK_THAT(message_of(path, with_outputs({brightened, image_output("image", 4, 4)}, 2)),
             Catch::Contains("no output \"image\"") && Catch::Contains("declared before \"mean\""));
  CHECK_THAT(message_of(path, with_outputs({computed_output("gpu", {DType::kUInt8, {}},
                                                            [](const RowContext&) {
                                                              throw std::runtime_error(
                                                                  "Cannot re-initialize CUDA in "
                                                                  "forked subprocess");
                                                            })},
                                           1)),
             Catch::Contains("CUDA in a worker") && Catch::Contains("output \"gpu\""));
  // Each output has random numbers of its own, whatever stands before it.
  Loader first(path, with_outputs({random_output("a"), random_output("b")}, 0));
  Loader second(path, with_outputs({random_output("b")}, 0));
  Batch one;
  Batch two;
  REQUIRE(first.next(one));
  REQUIRE(second.next(two));
  CHECK(one["b"].as<std::uint64_t>()[0] == two["b"].as<std::uint64_t>()[0]);
  CHECK(one["a"].as<std::uint64_t>()[0] != one["b"].as<std::uint64_t>()[0]);
}

TEST_CASE("Rows that are skipped leave every kind of output in order", "[outputs]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  write_varied(path);
  const std::vector<Output> outputs = {image_output("image", 3, 3),
                                       padded_image_output("own", 14, 9, {.multiple = 2}),
                                       padded_tokens_output("ids", "ids.npy", 22, {.multiple = 4}),
                                       padded_tokens_output("fixed", "ids.npy", 22),
                                       optional_output(bytes_output("text", "txt")),
                                       optional_output(list_output("list", "txt"))};
  std::vector<Output> failing = outputs;
  failing.push_back(computed_output("odd", {DType::kUInt8, {}}, [](const RowContext& context) {
    context.row[0] = std::byte{1};
    const char last = context.sample.key.back();
    if (last == '0' || last == '4' || last == '5' || last == '9') throw std::runtime_error("odd");
  }));
  Loader reference(path, with_outputs(outputs, 0));
  for (const int workers : {0, 3}) {
    LoaderOptions options = with_outputs(failing, workers);
    options.bad_samples = BadSamples::kSkip;
    options.max_bad_fraction = 1;
    Loader loader(path, options);
    Batch all;
    reference.start_epoch(0);
    for (const Batch& batch : loader.epoch(0)) {
      REQUIRE(reference.next(all));
      std::size_t at = 0;
      for (std::size_t row = 0; row < batch.size(); ++row, ++at) {
        while (all.samples()[at] != batch.samples()[row]) ++at;
        REQUIRE(batch.keys()[row] == all.keys()[at]);
        for (const char* name : {"image", "fixed"}) {
          const std::size_t bytes = batch[name].row.bytes();
          REQUIRE(std::ranges::equal(batch[name].data.subspan(row * bytes, bytes),
                                     all[name].data.subspan(at * bytes, bytes)));
        }
        for (const char* name : {"text", "list"}) {
          REQUIRE(batch[name].text(row) == all[name].text(at));
          REQUIRE(batch[name].present[row] == all[name].present[at]);
        }
        const BatchOutput& ids = batch["ids"];
        const std::size_t count = token_count(batch.samples()[row]);
        REQUIRE(ids.sizes[row] == static_cast<std::int64_t>(count));
        for (std::size_t i = 0; i < ids.row.shape[0]; ++i) {
          const auto token = static_cast<std::int64_t>(batch.samples()[row] * 100 + i);
          REQUIRE(ids.as<std::int64_t>()[row * ids.row.shape[0] + i] == (i < count ? token : 0));
        }
        REQUIRE(batch["own"].sizes[2 * row] == all["own"].sizes[2 * at]);
        const std::size_t line = batch["own"].row.shape[1] * 3;
        const std::size_t own = width_of(batch.samples()[row]) * 3;
        REQUIRE(std::ranges::equal(
            batch["own"].data.subspan(row * batch["own"].row.bytes() + line, own),
            all["own"].data.subspan(at * all["own"].row.bytes() + all["own"].row.shape[1] * 3,
                                    own)));
      }
    }
    REQUIRE_FALSE(loader.stats().bad_samples == 0);
  }
}

TEST_CASE("Without declared outputs the first image field may change from sample to sample",
          "[outputs]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  {
    const auto writer = find_format("tar").create(path, {});
    for (int number = 0; number < 9; ++number) {
      Sample sample("s" + std::to_string(number));
      sample.add(number % 3 == 0 ? "jpg" : number % 3 == 1 ? "png" : "webp", "image bytes");
      sample.add("cls", "1");
      writer->write(sample.view());
    }
    writer->close();
  }
  Loader loader(path, with_outputs({}, 1));
  std::size_t rows = 0;
  for (const Batch& batch : loader.epoch(0)) rows += batch.size();
  CHECK(rows == 9);
  CHECK(loader.options().outputs.size() == 2);
}
