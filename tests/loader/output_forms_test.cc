// SPDX-License-Identifier: Apache-2.0
// What batches hold: every kind of output, in every form, made by any number of workers.
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>
#include <shardmill/loader/loader.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include "tests/loader/decode/make_images.h"
#include "tests/loader/loader_test_data.h"
#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

using Fill = std::function<void(Sample& sample, std::size_t number)>;

std::string write_shard(const std::filesystem::path& path, std::size_t count, const Fill& fill,
                        const std::function<std::string(std::size_t)>& key = {}) {
  const auto writer = find_format("tar").create(path, {});
  for (std::size_t number = 0; number < count; ++number) {
    char plain[32];
    std::snprintf(plain, sizeof plain, "s%04zu", number);
    Sample sample(key ? key(number) : plain);
    fill(sample, number);
    writer->write(sample.view());
  }
  writer->close();
  return path.string();
}

template <class T>
void add_array(Sample& sample, std::string_view field, DType dtype,
               std::vector<std::uint64_t> shape, const std::vector<T>& values) {
  const ArrayType type{dtype, std::move(shape)};
  sample.add(field, std::as_bytes(std::span(values)), &type);
}

// Sample n has n % 6 + 1 tokens: 100 n, 100 n + 1, …
std::vector<std::uint16_t> tokens_of(std::size_t number) {
  std::vector<std::uint16_t> tokens(number % 6 + 1);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::uint16_t>(100 * number + i);
  }
  return tokens;
}

std::uint32_t width_of(std::size_t number) { return static_cast<std::uint32_t>(20 + number % 5); }
std::uint32_t height_of(std::size_t number) { return static_cast<std::uint32_t>(30 - number % 7); }

// A dataset with something for every output. Odd samples have no caption.
std::string write_all_kinds(const std::filesystem::path& path, std::size_t count,
                            std::size_t bad = SIZE_MAX) {
  return write_shard(path, count, [&](Sample& sample, std::size_t number) {
    sample.add("cls", std::to_string(number % 10));
    sample.add("weight", number == bad ? "heavy" : " " + std::to_string(number) + ".25\n");
    add_array<std::uint16_t>(sample, "npy", DType::kUInt16, {number % 6 + 1}, tokens_of(number));
    sample.add("png", make_png(width_of(number), height_of(number), 1));
    if (number % 2 == 0) sample.add("txt", std::string(number % 4 == 0 ? 0 : number, 'c'));
    add_array<float>(sample, "box.npy", DType::kFloat32, {1}, {static_cast<float>(number)});
  });
}

Output list_tokens() {
  Output output = ragged_tokens_output("ragged_list", "npy", DType::kInt64);
  output.list_view = true;
  return output;
}

std::vector<Output> all_kinds() {
  return {class_output(),
          padded_tokens_output("fixed", "npy", 6, {.value = -1}),
          padded_tokens_output("tokens", "npy", 64, {.multiple = 4, .value = -7}),
          padded_image_output("canvas", 32, 32, {.value = 9}),
          padded_image_output("image", 64, 64, {.multiple = 8, .value = 200}),
          image_output("small", 8, 8),
          bytes_output("bytes", "png"),
          list_output("list", "png"),
          ragged_tokens_output("ragged", "npy", DType::kInt32),
          list_tokens(),
          optional_output(bytes_output("caption", "txt")),
          optional_output(list_output("caption_list", "txt")),
          scalar_output("box", "box.npy", DType::kInt32),
          random_output(),
          scalar_output("weight", "weight", DType::kFloat64)};
}

LoaderOptions options(std::vector<Output> outputs, int workers, std::size_t batch_size = 8) {
  LoaderOptions options;
  options.outputs = std::move(outputs);
  options.batch_size = batch_size;
  options.num_workers = workers;
  options.seed = 5;
  options.max_worker_restarts = 100'000;
  return options;
}

// What one batch says, whatever the order in which a list output's values lie.
std::string content(const Batch& batch) {
  std::string text = std::to_string(batch.epoch()) + "/" + std::to_string(batch.index());
  for (const std::string_view key : batch.keys()) text += "," + std::string(key);
  for (const BatchOutput& output : batch.outputs()) {
    text += "|" + output.name;
    for (const std::uint64_t extent : output.row.shape) text += "x" + std::to_string(extent);
    for (const std::int64_t size : output.sizes) text += "," + std::to_string(size);
    for (const std::uint8_t present : output.present) text += present != 0 ? "+" : "-";
    if (output.lengths.empty()) {
      for (const std::int64_t offset : output.offsets) text += "," + std::to_string(offset);
      text.append(reinterpret_cast<const char*>(output.data.data()), output.data.size());
    } else {
      for (std::size_t row = 0; row < batch.size(); ++row) text += output.text(row);
    }
  }
  return text;
}

// All batches of two epochs; spoils the memory of each, which whoever gets it next must notice.
std::vector<std::string> contents(Loader& loader) {
  std::vector<std::string> all;
  for (const std::uint64_t epoch : {0, 1}) {
    for (Batch& batch : loader.epoch(epoch)) {
      all.push_back(content(batch));
      for (const BatchOutput& output : batch.outputs()) {
        if (!output.data.empty()) std::memset(output.data.data(), 0xA5, output.data.size());
      }
    }
  }
  return all;
}

Batch first_batch(const std::string& path, std::vector<Output> outputs, int workers,
                  std::size_t batch_size) {
  Loader loader(path, options(std::move(outputs), workers, batch_size));
  Batch batch;
  const bool any = loader.next(batch);  // may throw what the caller wants to see
  REQUIRE(any);
  return batch;
}

// The error of the first batch.
ErrorInfo first_error(const std::string& path, std::vector<Output> outputs, int workers = 0) {
  return error_of([&] { first_batch(path, std::move(outputs), workers, 2); });
}

// Checks every row of a batch of write_all_kinds() against its sample's number.
void check_all_kinds(const Batch& batch) {
  std::uint64_t longest = 0;
  std::uint64_t tallest = 0;
  std::uint64_t widest = 0;
  for (const std::uint64_t number : batch.samples()) {
    longest = std::max<std::uint64_t>(longest, tokens_of(number).size());
    tallest = std::max<std::uint64_t>(tallest, height_of(number));
    widest = std::max<std::uint64_t>(widest, width_of(number));
  }
  const std::uint64_t length = (longest + 3) / 4 * 4;
  REQUIRE(batch["tokens"].row == ArrayType{DType::kInt64, {length}});
  REQUIRE(batch["image"].row ==
          ArrayType{DType::kUInt8, {(tallest + 7) / 8 * 8, (widest + 7) / 8 * 8, 3}});
  const std::uint64_t stride = batch["image"].row.shape[1] * 3;
  ImageDecoder decoder;
  for (std::size_t row = 0; row < batch.size(); ++row) {
    const std::uint64_t number = batch.samples()[row];
    const auto tokens = tokens_of(number);
    REQUIRE(batch["label"].as<std::int64_t>()[row] == static_cast<std::int64_t>(number % 10));
    REQUIRE(batch["weight"].as<double>()[row] == static_cast<double>(number) + 0.25);
    REQUIRE(batch["box"].as<std::int32_t>()[row] == static_cast<std::int32_t>(number));
    for (const auto& [name, width, pad] :
         {std::tuple("fixed", std::uint64_t{6}, -1), std::tuple("tokens", length, -7)}) {
      REQUIRE(batch[name].sizes[row] == static_cast<std::int64_t>(tokens.size()));
      for (std::size_t i = 0; i < width; ++i) {
        REQUIRE(batch[name].as<std::int64_t>()[row * width + i] ==
                (i < tokens.size() ? tokens[i] : pad));
      }
    }
    const std::string png = make_png(width_of(number), height_of(number), 1);
    const auto ragged = batch["ragged"].as<std::int32_t>().subspan(
        static_cast<std::size_t>(batch["ragged"].offsets[row]));
    REQUIRE(batch["ragged"].value(row).size() == 4 * tokens.size());
    REQUIRE(std::equal(tokens.begin(), tokens.end(), ragged.begin()));
    const auto list = batch["ragged_list"].as<std::int64_t>().subspan(
        static_cast<std::size_t>(batch["ragged_list"].offsets[row]));
    REQUIRE(batch["ragged_list"].lengths[row] == static_cast<std::int64_t>(tokens.size()));
    REQUIRE(std::equal(tokens.begin(), tokens.end(), list.begin()));
    REQUIRE(batch["bytes"].text(row) == png);
    REQUIRE(batch["list"].text(row) == png);
    REQUIRE(batch["caption"].present[row] == (number % 2 == 0 ? 1 : 0));
    REQUIRE(batch["caption"].text(row) ==
            std::string(number % 2 == 0 && number % 4 != 0 ? number : 0, 'c'));
    REQUIRE(batch["caption_list"].present[row] == batch["caption"].present[row]);
    REQUIRE(batch["caption_list"].text(row) == batch["caption"].text(row));
    const ImageDecoder::Pixels pixels = decoder.decode_full(as_bytes(png));
    for (const auto& [name, line, lines, pad] :
         {std::tuple("canvas", std::uint64_t{96}, std::uint64_t{32}, 9),
          std::tuple("image", stride, batch["image"].row.shape[0], 200)}) {
      REQUIRE(batch[name].sizes[2 * row] == pixels.height);
      REQUIRE(batch[name].sizes[2 * row + 1] == pixels.width);
      const auto* const at = batch[name].as<std::uint8_t>().data() + row * line * lines;
      bool right = true;
      for (std::uint64_t y = 0; y < lines; ++y) {
        for (std::uint64_t x = 0; x < line; ++x) {
          const bool inside = y < pixels.height && x < pixels.width * 3;
          right &= at[y * line + x] == (inside ? pixels.rgb[y * pixels.width * 3 + x] : pad);
        }
      }
      REQUIRE(right);
    }
  }
}

// Memory that slots take, whichever process has touched it.
std::uint64_t slots_kib() {
  std::uint64_t kib = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the directory's own descriptor
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    struct stat info {};
    if (target.find("shardmill-slots") == std::string::npos) continue;
    if (stat(entry.path().c_str(), &info) == 0) {
      kib += static_cast<std::uint64_t>(info.st_blocks) / 2;
    }
  }
  return kib;
}

}  // namespace

TEST_CASE("Every output in every form holds what the sample holds", "[outputs]") {
  TemporaryFolder folder;
  const std::string path = write_all_kinds(folder / "data.tar", 50);
  for (const int workers : {0, 3}) {
    Loader loader(path, options(all_kinds(), workers));
    std::uint64_t rows = 0;
    for (const Batch& batch : loader.epoch(0)) {
      check_all_kinds(batch);
      rows += batch.size();
    }
    CHECK(rows == 50);
  }
}

TEST_CASE("Outputs are bit-identical for any number of workers and for threads", "[outputs]") {
  TemporaryFolder folder;
  const std::string path = write_all_kinds(folder / "data.tar", 70);
  LoaderOptions with = options(all_kinds(), 0);
  with.shuffle = Shuffle::kFull;
  Loader reference(path, with);
  const std::vector<std::string> expected = contents(reference);
  REQUIRE(expected.size() == 18);
  for (const int workers : {1, 2, 5}) {
    with.num_workers = workers;
    Loader loader(path, with);
    CHECK(contents(loader) == expected);
  }
  with.workers = Workers::kThreads;
  Loader threads(path, with);
  CHECK(contents(threads) == expected);
}

TEST_CASE("Outputs are bit-identical whichever workers die, also while they pack", "[outputs]") {
  // Large values and hardly any decoding: much of the time goes into the seal.
  TemporaryFolder folder;
  const std::string path =
      write_shard(folder / "data.tar", 120, [](Sample& sample, std::size_t number) {
        sample.add("bin",
                   std::string(number * 7919 % 400'000, static_cast<char>('a' + number % 26)));
        std::vector<std::int32_t> tokens(number * 104'729 % 50'000,
                                         static_cast<std::int32_t>(number));
        add_array(sample, "npy", DType::kInt32, {tokens.size()}, tokens);
      });
  LoaderOptions with = options({bytes_output("bytes", "bin"), list_output("list", "bin"),
                                padded_tokens_output("tokens", "npy", 50'000, {.multiple = 64})},
                               0);
  Loader reference(path, with);
  const std::vector<std::string> expected = contents(reference);
  with.num_workers = 3;
  std::uint64_t deaths = 0;
  for (std::uint64_t round = 0; round < 4; ++round) {
    Loader loader(path, with);
    std::vector<std::string> found;
    {
      std::jthread killer([&](const std::stop_token& stop) {
        Random random(round, 1, 2);
        while (!stop.stop_requested()) {
          const int victim = loader.stats().workers[random.below(3)].pid;
          if (victim > 0) kill(victim, SIGKILL);
          // A sample that is hit twice would rightly be taken for the culprit.
          const std::uint64_t seen = loader.stats().samples;
          while (!stop.stop_requested() && loader.stats().samples < seen + 48) {
            std::this_thread::sleep_for(std::chrono::microseconds(random.below(1500)));
          }
        }
      });
      found = contents(loader);
    }
    CHECK(found == expected);
    deaths += loader.stats().deaths;
  }
  CHECK(deaths > 0);
}

TEST_CASE("Rows after a skipped sample move up in every form", "[outputs][bad]") {
  TemporaryFolder folder;
  const std::string path = write_all_kinds(folder / "data.tar", 32, 19);
  for (const int workers : {0, 2}) {
    LoaderOptions with = options(all_kinds(), workers);
    with.bad_samples = BadSamples::kSkip;
    with.max_bad_fraction = 1;
    Loader loader(path, with);
    std::uint64_t rows = 0;
    for (const Batch& batch : loader.epoch(0)) {
      CHECK(batch.size() == (batch.index() == 2 ? 7 : 8));
      check_all_kinds(batch);
      for (std::size_t row = 0; row < batch.size(); ++row) {
        char key[32];
        std::snprintf(key, sizeof key, "s%04zu", static_cast<std::size_t>(batch.samples()[row]));
        CHECK(batch.keys()[row] == key);
      }
      rows += batch.size();
    }
    CHECK(rows == 31);
  }
}

TEST_CASE("A replayed row holds the same values", "[outputs][replay]") {
  TemporaryFolder folder;
  const std::string path = write_all_kinds(folder / "data.tar", 20);
  LoaderOptions with = options(all_kinds(), 2);
  with.shuffle = Shuffle::kFull;
  Loader loader(path, with);
  Batch batch;
  REQUIRE(loader.next(batch));
  const Batch row = loader.replay(0, batch.positions()[5]);
  check_all_kinds(row);
  CHECK(row.keys()[0] == batch.keys()[5]);
  CHECK(row["random"].as<std::uint64_t>()[0] == batch["random"].as<std::uint64_t>()[5]);
  CHECK(row["caption"].present[0] == batch["caption"].present[5]);
}

TEST_CASE("Images of different size: both samples and the ways out", "[outputs][cases]") {
  // Row 35 of the collected faults: "stack expects each tensor to be equal size", with no names.
  TemporaryFolder folder;
  const std::string path =
      write_shard(folder / "data.tar", 2, [](Sample& sample, std::size_t number) {
        sample.add("jpg", make_jpeg(number == 0 ? 40 : 30, 50, 1));
      });
  for (const int workers : {0, 2}) {
    const ErrorInfo error = first_error(path, {image_output("image", 0, 0)}, workers);
    CHECK(error.code == ErrorCode::kInvalidArgument);
    CHECK(error.place.find("\"s0001\"") != std::string::npos);
    CHECK(error.cause.find("\"s0000\"") != std::string::npos);
    CHECK(error.cause.find("(50, 30, 3)") != std::string::npos);
    CHECK(error.cause.find("(50, 40, 3)") != std::string::npos);
    for (const char* way : {"resize", "pad", "bytes"}) {
      CHECK(error.remedy.find(way) != std::string::npos);
    }
    const Batch batch = first_batch(
        path,
        {image_output("resized", 32, 32), padded_image_output("largest", 64, 64),
         padded_image_output("multiple", 64, 64, {.multiple = 16}), bytes_output("bytes", "jpg")},
        workers, 2);
    CHECK(batch["resized"].data.size() == 2 * 32 * 32 * 3);
    CHECK(batch["largest"].row.shape == std::vector<std::uint64_t>{64, 64, 3});
    CHECK(batch["multiple"].row.shape == std::vector<std::uint64_t>{64, 48, 3});
    for (const char* name : {"largest", "multiple"}) {
      const auto sizes = batch[name].sizes;
      CHECK(std::vector(sizes.begin(), sizes.end()) == std::vector<std::int64_t>{50, 40, 50, 30});
    }
    CHECK(batch["bytes"].text(1) == make_jpeg(30, 50, 1));
  }
  const ErrorInfo error = first_error(path, {padded_image_output("image", 35, 64)});
  CHECK(error.cause.find("at most uint8 (64, 35, 3)") != std::string::npos);
}

TEST_CASE("One huge value among small ones takes its memory for a while only", "[outputs][cases]") {
  // Row 77 of the collected faults: all slots grew to the largest sample, or it did not fit at all.
  constexpr std::size_t kHuge = 100 << 20;
  TemporaryFolder folder;
  const auto size_of = [](std::uint64_t number) -> std::size_t {
    return number == 500 ? kHuge : 1024;
  };
  const std::string path =
      write_shard(folder / "data.tar", 1001, [&](Sample& sample, std::size_t number) {
        sample.add("bin", std::string(size_of(number), static_cast<char>('a' + number % 26)));
      });
  for (const Output& output : {bytes_output("data", "bin"), list_output("data", "bin")}) {
    for (const int workers : {0, 2}) {
      LoaderOptions with = options({output}, workers, 16);
      if (workers > 0) with.prefetch = 4;
      Loader loader(path, with);
      std::uint64_t rows = 0;
      std::uint64_t peak = 0;
      for (const Batch& batch : loader.epoch(0)) {
        bool right = true;
        for (std::size_t row = 0; row < batch.size(); ++row, ++rows) {
          const std::uint64_t number = batch.samples()[row];
          const std::string_view text = batch["data"].text(row);
          right &= text.size() == size_of(number) &&
                   text.find_first_not_of(static_cast<char>('a' + number % 26)) == text.npos;
        }
        CHECK(right);
        peak = std::max(peak, slots_kib());
      }
      CHECK(rows == 1001);
      CHECK(peak >= kHuge / 1024);  // the measure measures
      CHECK(peak < 3 * kHuge / 1024);
      CHECK(slots_kib() < kHuge / 1024 / 2);
    }
  }
}

TEST_CASE("Padding to one huge value gives its memory back too", "[outputs]") {
  constexpr std::size_t kHuge = 4 << 20;  // tokens, and so 8 rows of 16 MiB
  TemporaryFolder folder;
  const std::string path =
      write_shard(folder / "data.tar", 400, [&](Sample& sample, std::size_t number) {
        const std::vector<std::int32_t> tokens(number == 100 ? kHuge : 10, 3);
        add_array(sample, "npy", DType::kInt32, {tokens.size()}, tokens);
      });
  Loader loader(
      path,
      options({padded_tokens_output("tokens", "npy", kHuge, {.multiple = 8}, DType::kInt32)}, 0));
  std::uint64_t peak = 0;
  for (const Batch& batch : loader.epoch(0)) {
    const bool huge = batch.index() == 12;
    CHECK(batch["tokens"].row.shape[0] == (huge ? kHuge : 16));
    if (huge) std::memset(batch["tokens"].data.data(), 1, batch["tokens"].data.size());
    peak = std::max(peak, slots_kib());
  }
  CHECK(peak >= 8 * kHuge * 4 / 1024);
  CHECK(slots_kib() < 2 * kHuge * 4 / 1024);
}

TEST_CASE("A size that only a header announces is an error with the size", "[outputs][cases]") {
  TemporaryFolder folder;
  const std::string header = npy_header({DType::kUInt8, {std::uint64_t{3} << 30}});
  const std::string path = write_shard(folder / "data.tar", 2, [&](Sample& sample, std::size_t) {
    sample.add("npy", header + "abc");
  });
  for (const int workers : {0, 1}) {
    const ErrorInfo error =
        first_error(path, {padded_tokens_output("tokens", "npy", std::uint64_t{1} << 20)}, workers);
    CHECK(error.code == ErrorCode::kDataLoss);
    CHECK(error.cause.find("3221225472") != std::string::npos);
  }
}

TEST_CASE("Numbers come from text and from arrays, and must fit", "[outputs]") {
  TemporaryFolder folder;
  const std::string path =
      write_shard(folder / "data.tar", 2, [](Sample& sample, std::size_t number) {
        sample.add("int", number == 0 ? " -12\n" : "300");
        sample.add("real", "1e-3");
        sample.add("empty", "");
        sample.add("word", "12 monkeys");
        add_array<double>(sample, "whole.npy", DType::kFloat64, {1, 1}, {7.0});
        add_array<double>(sample, "part.npy", DType::kFloat64, {}, {7.5});
        add_array<double>(sample, "two.npy", DType::kFloat64, {2}, {1, 2});
      });
  const Batch batch = first_batch(
      path,
      {scalar_output("i16", "int", DType::kInt16), scalar_output("f32", "real"),
       scalar_output("whole", "whole.npy", DType::kInt8),
       scalar_output("part", "part.npy", DType::kFloat64), class_output("class", "whole.npy")},
      0, 2);
  CHECK(batch["i16"].as<std::int16_t>()[0] == -12);
  CHECK(batch["f32"].as<float>()[1] == 1e-3f);
  CHECK(batch["whole"].as<std::int8_t>()[1] == 7);
  CHECK(batch["part"].as<double>()[0] == 7.5);
  CHECK(batch["class"].as<std::int64_t>()[0] == 7);
  const auto cause = [&](const Output& output) { return first_error(path, {output}).cause; };
  CHECK_THAT(cause(scalar_output("x", "int", DType::kUInt8)), Catch::Contains("-12"));
  CHECK_THAT(cause(scalar_output("x", "empty")), Catch::Contains("not a decimal number"));
  CHECK_THAT(cause(scalar_output("x", "word")), Catch::Contains("12 monkeys"));
  CHECK_THAT(cause(scalar_output("x", "part.npy", DType::kInt64)), Catch::Contains("7.5"));
  CHECK_THAT(cause(scalar_output("x", "two.npy")), Catch::Contains("float64 (2)"));
  CHECK_THAT(cause(scalar_output("x", "nothing")), Catch::Contains("no field \"nothing\""));
}

TEST_CASE("Tokens: arrays of any integer type, raw bytes, cut or refused", "[outputs]") {
  TemporaryFolder folder;
  const std::string path =
      write_shard(folder / "data.tar", 2, [](Sample& sample, std::size_t number) {
        const auto tokens = tokens_of(number + 2);  // 3 and 4 tokens
        add_array<std::uint16_t>(sample, "npy", DType::kUInt16, {tokens.size()}, tokens);
        sample.add("raw", std::as_bytes(std::span(tokens)));
        sample.add("odd", "abc");
        sample.add("npz.npy", npy_header({DType::kInt64, {2}}) + std::string(16, '\1'));
      });
  Output cut = tokens_output("cut", "npy", 3, DType::kInt32);
  cut.truncate = true;
  Output wide = ragged_tokens_output("wide", "raw", DType::kInt32);
  wide.stored = DType::kUInt16;
  const Batch batch =
      first_batch(path,
                  {cut, wide, padded_tokens_output("raw", "raw", 5, {.value = 9}, DType::kUInt16),
                   tokens_output("file", "npz.npy", 2)},
                  0, 2);
  const auto cut_values = batch["cut"].as<std::int32_t>();
  CHECK(std::vector(cut_values.begin(), cut_values.end()) ==
        std::vector<std::int32_t>{200, 201, 202, 300, 301, 302});
  const auto wide_values = batch["wide"].as<std::int32_t>();
  CHECK(std::vector(wide_values.begin(), wide_values.end()) ==
        std::vector<std::int32_t>{200, 201, 202, 300, 301, 302, 303});
  const auto raw = batch["raw"].as<std::uint16_t>();
  CHECK(std::vector(raw.begin(), raw.end()) ==
        std::vector<std::uint16_t>{200, 201, 202, 9, 9, 300, 301, 302, 303, 9});
  CHECK(batch["raw"].sizes[1] == 4);
  CHECK(batch["file"].as<std::int64_t>()[3] == 0x0101010101010101);

  const ErrorInfo longer = first_error(path, {tokens_output("x", "npy", 3)});
  CHECK_THAT(longer.place, Catch::Contains("\"s0001\""));
  CHECK_THAT(longer.cause, Catch::Contains("uint16 (4)") && Catch::Contains("int64 (3)"));
  CHECK_THAT(longer.remedy, Catch::Contains("padded_tokens_output") && Catch::Contains("truncate"));
  const ErrorInfo shorter = first_error(path, {tokens_output("x", "npy", 4)});
  CHECK_THAT(shorter.place, Catch::Contains("\"s0000\""));
  CHECK_THAT(first_error(path, {padded_tokens_output("x", "npy", 3, {.multiple = 2})}).cause,
             Catch::Contains("at most int64 (3)"));
  CHECK_THAT(first_error(path, {padded_tokens_output("x", "npy", 4, {}, DType::kUInt8)}).cause,
             Catch::Contains("300 does not fit"));
  CHECK_THAT(first_error(path, {tokens_output("x", "odd", 1, DType::kInt16)}).cause,
             Catch::Contains("3 bytes"));
}

TEST_CASE("An absent field is no empty one; rows without it are padding", "[outputs]") {
  TemporaryFolder folder;
  const std::string path =
      write_shard(folder / "data.tar", 6, [](Sample& sample, std::size_t number) {
        sample.add("cls", "1");
        if (number % 3 == 0) return;  // also the first: its types must come from another
        sample.add("txt", "");
        sample.add("num", "5");
        sample.add("png", make_png(4, 4, 1));
        add_array<float>(sample, "npy", DType::kFloat32, {2}, {1, 2});
        add_array<std::int32_t>(sample, "tok.npy", DType::kInt32, {1}, {8});
      });
  for (const int workers : {0, 2}) {
    const Batch batch = first_batch(
        path,
        {optional_output(bytes_output("text", "txt")), optional_output(scalar_output("num", "num")),
         optional_output(image_output("image", 4, 4)), optional_output(image_output("full", 0, 0)),
         optional_output(array_output("array", "npy")),
         optional_output(padded_tokens_output("tokens", "tok.npy", 2, {.value = -1})),
         optional_output(padded_tokens_output("many", "tok.npy", 4, {.multiple = 2, .value = -1}))},
        workers, 6);
    for (const BatchOutput& output : batch.outputs()) {
      INFO(output.name);
      const std::vector<std::uint8_t> present(output.present.begin(), output.present.end());
      CHECK(present == std::vector<std::uint8_t>{0, 1, 1, 0, 1, 1});
    }
    CHECK(batch["text"].text(1).empty());
    const auto values = [&]<class T>(const char* name, T) {
      const auto all = batch[name].as<T>();
      return std::vector<T>(all.begin(), all.begin() + 4);
    };
    CHECK(values("num", float{}) == std::vector<float>{0, 5, 5, 0});
    CHECK(values("array", float{}) == std::vector<float>{0, 0, 1, 2});
    CHECK(values("tokens", std::int64_t{}) == std::vector<std::int64_t>{-1, -1, 8, -1});
    CHECK(values("many", std::int64_t{}) == std::vector<std::int64_t>{-1, -1, 8, -1});
    CHECK(batch["many"].sizes[0] == 0);
    CHECK(std::all_of(batch["image"].data.begin(), batch["image"].data.begin() + 48,
                      [](std::byte byte) { return byte == std::byte{0}; }));
    CHECK(batch["full"].row.shape == std::vector<std::uint64_t>{4, 4, 3});
  }
  CHECK_THAT(first_error(path, {bytes_output("text", "txt")}).remedy, Catch::Contains("optional"));
  CHECK_THAT(first_error(path, {optional_output(array_output("array", "none"))}).cause,
             Catch::Contains("none of the first"));
}

TEST_CASE("A function works on the rows of outputs declared before its own", "[outputs]") {
  TemporaryFolder folder;
  const std::string path =
      write_shard(folder / "data.tar", 20, [](Sample& sample, std::size_t number) {
        sample.add("png", make_png(8, 8, static_cast<unsigned>(number)));
      });
  const auto darken = [](const RowContext& context) {
    const std::span<std::byte> image = context.row_of("image");
    std::uint64_t sum = 0;
    for (std::byte& pixel : image) {
      sum += std::to_integer<std::uint64_t>(pixel);
      pixel = static_cast<std::byte>(std::to_integer<unsigned>(pixel) / 2);
    }
    std::memcpy(context.row.data(), &sum, sizeof sum);
  };
  const Output reader = computed_output("sum", {DType::kUInt64, {}}, darken);
  const Batch plain = first_batch(path, {image_output("image", 8, 8)}, 0, 20);
  for (const int workers : {0, 2}) {
    const Batch batch = first_batch(path, {image_output("image", 8, 8), reader}, workers, 20);
    for (std::size_t row = 0; row < batch.size(); ++row) {
      std::uint64_t sum = 0;
      bool halved = true;
      for (std::size_t i = row * 192; i < (row + 1) * 192; ++i) {
        sum += plain["image"].as<std::uint8_t>()[i];
        halved &= batch["image"].as<std::uint8_t>()[i] == plain["image"].as<std::uint8_t>()[i] / 2;
      }
      CHECK(halved);
      CHECK(batch["sum"].as<std::uint64_t>()[row] == sum);
    }
  }
  const ErrorInfo error = first_error(path, {reader, image_output("image", 8, 8)});
  CHECK(error.code == ErrorCode::kNotFound);
  CHECK_THAT(error.cause, Catch::Contains("no output \"image\""));
}

TEST_CASE("A function sees values of any size, their extents and absent ones", "[outputs]") {
  TemporaryFolder folder;
  const std::string path = write_all_kinds(folder / "data.tar", 20);
  std::vector<Output> outputs = all_kinds();
  outputs.push_back(computed_output("check", {DType::kInt64, {6}}, [](const RowContext& context) {
    std::int64_t* const out = reinterpret_cast<std::int64_t*>(context.row.data());
    const RowView image = context.view_of("image");
    out[0] = image.size[0] * image.size[1] * 3 - static_cast<std::int64_t>(image.bytes.size());
    for (std::byte& pixel : image.bytes) pixel = ~pixel;
    out[1] = context.view_of("caption").present ? 1 : 0;
    out[2] = static_cast<std::int64_t>(context.row_of("ragged").size());
    out[3] = static_cast<std::int64_t>(context.row_of("ragged_list").size());
    out[4] = context.view_of("tokens").size[0];
  }));
  const Batch plain = first_batch(path, all_kinds(), 0, 8);
  for (const int workers : {0, 2}) {
    const Batch batch = first_batch(path, outputs, workers, 8);
    const std::uint64_t row_bytes = plain["image"].row.bytes();
    for (std::size_t row = 0; row < batch.size(); ++row) {
      const std::int64_t* const out = batch["check"].as<std::int64_t>().data() + row * 6;
      const auto tokens = static_cast<std::int64_t>(tokens_of(batch.samples()[row]).size());
      CHECK(std::vector(out, out + 6) == std::vector<std::int64_t>{0, batch["caption"].present[row],
                                                                   tokens * 4, tokens * 8, tokens,
                                                                   0});
      CHECK(batch["image"].as<std::uint8_t>()[row * row_bytes] ==
            255 - plain["image"].as<std::uint8_t>()[row * row_bytes]);
    }
  }
}

TEST_CASE("What a function leaves out is zero, not an earlier batch's", "[outputs]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  write_samples(path, 64);
  const Output lazy = computed_output("lazy", {DType::kUInt8, {4}}, [](const RowContext& context) {
    context.row[0] = std::byte{1};
  });
  Loader loader(path, options({lazy}, 0, 4));
  for (const std::string& text : contents(loader)) {
    CHECK(text.ends_with(std::string("\1\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0", 16)));
  }
}

TEST_CASE("Every function has random numbers of its own, whatever else is declared", "[outputs]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  write_samples(path, 8);
  const Batch both = first_batch(path, {random_output("a"), random_output("b")}, 2, 8);
  const Batch other = first_batch(path, {class_output(), random_output("b")}, 0, 8);
  for (std::size_t row = 0; row < 8; ++row) {
    CHECK(both["a"].as<std::uint64_t>()[row] != both["b"].as<std::uint64_t>()[row]);
    CHECK(both["b"].as<std::uint64_t>()[row] == other["b"].as<std::uint64_t>()[row]);
  }
}

TEST_CASE("Batches tell the keys, long ones cut", "[outputs]") {
  TemporaryFolder folder;
  const auto key = [](std::size_t number) {
    return std::to_string(number) + "/" + std::string(number % 2 == 0 ? 3 : 1500, 'k');
  };
  const std::string path = write_shard(
      folder / "data.tar", 40, [](Sample& sample, std::size_t) { sample.add("cls", "1"); }, key);
  for (const int workers : {0, 3}) {
    Loader loader(path, options({class_output()}, workers, 16));
    for (const std::uint64_t epoch : {0, 1}) {
      std::size_t number = 0;
      for (const Batch& batch : loader.epoch(epoch)) {
        REQUIRE(batch.keys().size() == batch.size());
        for (const std::string_view found : batch.keys()) {
          CHECK(found == key(number++).substr(0, 1023));
        }
      }
      CHECK(number == 40);
    }
  }
  CHECK(Batch().keys().empty());
}

TEST_CASE("Inferred outputs take whichever image a sample has", "[outputs]") {
  TemporaryFolder folder;
  const std::string path =
      write_shard(folder / "data.tar", 6, [](Sample& sample, std::size_t number) {
        sample.add("cls", "2");
        if (number % 3 == 0) sample.add("jpg", make_jpeg(8, 8, 1));
        if (number % 3 == 1) sample.add("png", make_png(8, 8, 1));
        if (number % 3 == 2) sample.add("webp", make_webp(8, 8, 1, true));
      });
  const Batch batch = first_batch(path, {}, 2, 6);
  REQUIRE(batch.outputs().size() == 2);
  CHECK(batch["jpg"].text(4) == make_png(8, 8, 1));
  CHECK(batch["jpg"].text(5) == make_webp(8, 8, 1, true));
}

TEST_CASE("A first sample that is bad does not hinder what is inferred", "[outputs][bad]") {
  TemporaryFolder folder;
  const std::string path =
      write_shard(folder / "data.tar", 8, [](Sample& sample, std::size_t number) {
        if (number == 0) {
          sample.add("npy", "no array");
        } else {
          add_array<float>(sample, "npy", DType::kFloat32, {2}, {1, 2});
        }
      });
  LoaderOptions with = options({array_output("array", "npy")}, 0);
  CHECK_THROWS_WITH(Loader(path, with), Catch::Contains("s0000"));
  with.bad_samples = BadSamples::kSkip;
  with.max_bad_fraction = 1;
  for (const int workers : {0, 2}) {
    with.num_workers = workers;
    Loader loader(path, with);
    Batch batch;
    REQUIRE(loader.next(batch));
    CHECK(batch.size() == 7);
    CHECK(batch["array"].row == ArrayType{DType::kFloat32, {2}});
  }
}

TEST_CASE("Outputs that make no sense are refused by name", "[outputs]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  write_samples(path, 4);
  const auto refused = [&](const Output& output, const char* words) {
    const ErrorInfo error = first_error(path, {class_output(), output});
    CHECK(error.code == ErrorCode::kInvalidArgument);
    CHECK_THAT(error.place, Catch::Contains("outputs[1]"));
    CHECK_THAT(error.cause, Catch::Contains(words));
  };
  refused(padded_tokens_output("x", "npy", 0), "length 0");
  refused(tokens_output("x", "npy", 2, DType::kFloat32), "integer");
  refused(padded_tokens_output("x", "npy", 4, {.value = 300}, DType::kUInt8), "300");
  refused(padded_tokens_output("x", "npy", 4, {.value = 0.5}), "0.5");
  refused(padded_image_output("x", 8, 8, {.value = -1}), "-1");
  refused(padded_image_output("x", 0, 8), "without a size");
  refused(scalar_output("x", "cls", DType::kFloat16), "float16");
  refused(optional_output(random_output("x")), "computed");
  Output output = ragged_tokens_output("x", "npy");
  output.padding = Padding{};
  refused(output, "ragged");
  output = class_output("x");
  output.list_view = true;
  refused(output, "one size");
  output = tokens_output("x", "npy", 2);
  output.stored = DType::kFloat32;
  refused(output, "float32");
}
