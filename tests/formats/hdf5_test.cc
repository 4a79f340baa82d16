// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <random>

#include "tests/support/catch.h"
#include "tests/support/support.h"

namespace shardmill {
namespace {

using test::TemporaryFolder;

std::string random_bytes(std::size_t size, unsigned seed) {
  std::mt19937_64 generator(seed);
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(generator());
  return out;
}

std::string text_of(const FieldView& field) { return std::string(as_text(field.bytes)); }

struct Opened {
  explicit Opened(const std::filesystem::path& path, Access access = Access::kAuto)
      : shard(find_format("hdf5"), path, access) {}
  Reader& reader() { return shard.reader(); }
  Sample at(std::uint64_t n) {
    SampleView view;
    shard.reader().read(n, view);
    return Sample(view);
  }
  OpenShard shard;
};

const ArrayType kImage{DType::kUInt8, {4, 5, 3}};

WriteOptions image_options(std::uint64_t samples) {
  WriteOptions options;
  options.fields = {{"cls", FieldKind::kClass, {}, false},
                    {"image", FieldKind::kArray, kImage, false},
                    {"jpg", FieldKind::kBytes, {}, false},
                    {"txt", FieldKind::kBytes, {}, true}};
  options.samples = samples;
  return options;
}

Sample image_sample(unsigned n, std::size_t jpg_bytes) {
  Sample sample("folder/sample " + std::to_string(n));
  sample.add("cls", std::to_string(static_cast<int>(n) - 2));
  sample.add("image", npy_header(kImage) + random_bytes(60, n));
  sample.add("jpg", random_bytes(jpg_bytes, 1000 + n));
  if (n % 3 == 0) sample.add("txt", n % 2 == 0 ? "" : "text " + std::to_string(n));
  return sample;
}

void write_images(const std::filesystem::path& path, unsigned count, std::size_t jpg_bytes,
                  bool known, bool vlen = false) {
  WriteOptions options = image_options(known ? count : 0);
  options.vlen = vlen;
  const auto writer = find_format("hdf5").create(path, options);
  for (unsigned n = 0; n < count; ++n) writer->write(image_sample(n, jpg_bytes).view());
  writer->close();
}

void check_image_sample(const Sample& got, unsigned n, std::size_t jpg_bytes) {
  const Sample wanted = image_sample(n, jpg_bytes);
  const SampleView view = got.view();
  const SampleView expected = wanted.view();
  REQUIRE(view.key == expected.key);
  REQUIRE(view.fields.size() == expected.fields.size());
  for (std::size_t i = 0; i < view.fields.size(); ++i) {
    REQUIRE(view.fields[i].name == expected.fields[i].name);
    if (view.fields[i].name == "image") {
      REQUIRE(view.fields[i].array != nullptr);
      REQUIRE(*view.fields[i].array == kImage);
      REQUIRE(npy_header(kImage) + text_of(view.fields[i]) == text_of(expected.fields[i]));
    } else {
      REQUIRE(view.fields[i].array == nullptr);
      REQUIRE(text_of(view.fields[i]) == text_of(expected.fields[i]));
    }
  }
}

ErrorInfo error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.info();
  }
  FAIL("no error was thrown");
  return {};
}

ErrorInfo write_error(const WriteOptions& options, const Sample& sample) {
  TemporaryFolder folder;
  const auto writer = find_format("hdf5").create(folder / "a.h5", options);
  return error_of([&] { writer->write(sample.view()); });
}

WriteOptions one_field(FieldSpec spec) {
  WriteOptions options;
  options.fields = {std::move(spec)};
  return options;
}

}  // namespace

TEST_CASE("hdf5 returns what was written", "[formats][hdf5]") {
  TemporaryFolder folder;
  const bool known = GENERATE(true, false);
  const std::size_t jpg_bytes = GENERATE(0, 10, 300'000);
  const Access access = GENERATE(Access::kMap, Access::kRead);
  const bool vlen = GENERATE(false, true);
  CAPTURE(known, vlen, jpg_bytes);
  write_images(folder / "a.h5", 20, jpg_bytes, known, vlen);
  REQUIRE(find_format("hdf5").recognises(folder / "a.h5"));
  Opened opened(folder / "a.h5", access);
  REQUIRE(opened.reader().size() == 20);
  REQUIRE(opened.reader().info().layout == "shardmill");
  for (unsigned n : {7u, 0u, 19u, 3u, 4u, 5u}) {
    opened.reader().will_need(n);
    check_image_sample(opened.at(n), n, jpg_bytes);
  }
}

TEST_CASE("hdf5 gives equal bytes for equal input", "[formats][hdf5]") {
  TemporaryFolder folder;
  const bool known = GENERATE(true, false);
  const std::size_t jpg_bytes = GENERATE(10, 300'000);
  const bool vlen = GENERATE(false, true);
  write_images(folder / "a.h5", 20, jpg_bytes, known, vlen);
  write_images(folder / "b.h5", 20, jpg_bytes, known, vlen);
  REQUIRE(test::read_text(folder / "a.h5") == test::read_text(folder / "b.h5"));
}

TEST_CASE("hdf5 keeps small shards small", "[formats][hdf5]") {
  TemporaryFolder folder;
  write_images(folder / "a.h5", 3, 10, false);
  REQUIRE(std::filesystem::file_size(folder / "a.h5") < 32'768);
}

TEST_CASE("hdf5 holds a shard without samples", "[formats][hdf5]") {
  TemporaryFolder folder;
  write_images(folder / "a.h5", 0, 0, false, GENERATE(false, true));
  REQUIRE(Opened(folder / "a.h5").reader().size() == 0);
}

TEST_CASE("hdf5 gathers values from chunks that do not touch", "[formats][hdf5]") {
  // Two fields that grow together put their chunks alternately into the file.
  TemporaryFolder folder;
  WriteOptions options;
  options.fields = {{"a", FieldKind::kBytes, {}, false}, {"b", FieldKind::kBytes, {}, false}};
  const auto writer = find_format("hdf5").create(folder / "a.h5", options);
  for (unsigned n = 0; n < 12; ++n) {
    Sample sample("k" + std::to_string(n));
    sample.add("a", random_bytes(700'000, n));
    sample.add("b", random_bytes(2'500'000, 100 + n));
    writer->write(sample.view());
  }
  writer->close();
  for (const Access access : {Access::kMap, Access::kRead}) {
    Opened opened(folder / "a.h5", access);
    for (unsigned n = 0; n < 12; ++n) {
      opened.reader().will_need(n);
      const Sample sample = opened.at(n);
      REQUIRE(text_of(*sample.view().find("a")) == random_bytes(700'000, n));
      REQUIRE(text_of(*sample.view().find("b")) == random_bytes(2'500'000, 100 + n));
    }
  }
}

TEST_CASE("hdf5 stores every element type", "[formats][hdf5]") {
  TemporaryFolder folder;
  for (int i = 0; i <= static_cast<int>(DType::kComplex128); ++i) {
    const ArrayType type{static_cast<DType>(i), {2, 3}};
    CAPTURE(dtype_name(type.dtype));
    const std::string elements =
        type.dtype == DType::kBool ? std::string("\1\0\1\1\0\0", 6) : random_bytes(type.bytes(), 7);
    const std::filesystem::path path = folder / (std::to_string(i) + ".h5");
    const auto writer =
        find_format("hdf5").create(path, one_field({"x", FieldKind::kArray, type, true}));
    Sample npy("npy");
    npy.add("x", npy_header(type) + elements);
    Sample lent("lent");
    lent.add("x", as_bytes(elements), &type);
    writer->write(npy.view());
    writer->write(Sample("none").view());
    writer->write(lent.view());
    writer->close();
    Opened opened(path);
    for (const std::uint64_t n : {0u, 2u}) {
      const Sample got = opened.at(n);
      REQUIRE(*got.view().fields[0].array == type);
      REQUIRE(text_of(got.view().fields[0]) == elements);
    }
    REQUIRE(opened.at(1).view().fields.empty());
  }
}

TEST_CASE("hdf5 says what a class number is", "[formats][hdf5]") {
  const auto text = GENERATE("007", "", "x", "+1", "-0", "1.5", " 1", "9223372036854775808");
  Sample sample("n1");
  sample.add("cls", text);
  const ErrorInfo error = write_error(one_field({"cls", FieldKind::kClass, {}, false}), sample);
  REQUIRE(error.code == ErrorCode::kUnsupported);
  REQUIRE(error.place == "sample \"n1\" field \"cls\"");

  TemporaryFolder folder;
  const auto writer =
      find_format("hdf5").create(folder / "a.h5", one_field({"cls", FieldKind::kBytes, {}, false}));
  writer->write(sample.view());
  writer->close();
  REQUIRE(text_of(*Opened(folder / "a.h5").at(0).view().find("cls")) == text);
}

TEST_CASE("hdf5 returns class fields of any name as decimal text", "[formats][hdf5]") {
  TemporaryFolder folder;
  WriteOptions options;
  options.fields = {{"cls", FieldKind::kClass, {}, true}, {"label", FieldKind::kClass, {}, false}};
  const auto writer = find_format("hdf5").create(folder / "a.h5", options);
  Sample one("1");
  one.add("cls", "-9223372036854775808");
  one.add("label", "9223372036854775807");
  Sample two("2");
  two.add("label", "0");
  writer->write(one.view());
  writer->write(two.view());
  writer->close();
  Opened opened(folder / "a.h5");
  REQUIRE(text_of(*opened.at(0).view().find("cls")) == "-9223372036854775808");
  REQUIRE(text_of(*opened.at(0).view().find("label")) == "9223372036854775807");
  REQUIRE(opened.at(1).view().find("cls") == nullptr);
  REQUIRE(text_of(*opened.at(1).view().find("label")) == "0");
}

TEST_CASE("hdf5 refuses fields that do not fit", "[formats][hdf5]") {
  TemporaryFolder folder;
  for (const char* name : {"", ".", "..", "a/b", "__key__", "__x", "a__present"}) {
    CAPTURE(name);
    const ErrorInfo error = error_of([&] {
      find_format("hdf5").create(folder / "a.h5", one_field({name, FieldKind::kBytes, {}, false}));
    });
    REQUIRE(error.code == ErrorCode::kUnsupported);
  }
  REQUIRE(std::filesystem::is_empty(folder.path()));

  const WriteOptions bytes = one_field({"seg.png", FieldKind::kBytes, {}, false});
  Sample unknown("k");
  unknown.add("jpg", "x");
  REQUIRE(write_error(bytes, unknown).code == ErrorCode::kInvalidArgument);
  REQUIRE(write_error(bytes, Sample("k")).code == ErrorCode::kInvalidArgument);
  REQUIRE(write_error({}, Sample(std::string("a\0b", 3))).code == ErrorCode::kInvalidArgument);

  const WriteOptions arrays = one_field({"x", FieldKind::kArray, {DType::kFloat32, {2, 2}}, false});
  Sample other("k");
  other.add("x", npy_header({DType::kFloat32, {4}}) + std::string(16, '\0'));
  const ErrorInfo shape = write_error(arrays, other);
  REQUIRE(shape.code == ErrorCode::kInvalidArgument);
  REQUIRE(shape.cause == "array of float32 (4), declared are float32 (2, 2)");
  std::string fortran = npy_header({DType::kFloat32, {2, 2}});
  fortran.replace(fortran.find("False"), 5, "True ");
  Sample turned("k");
  turned.add("x", fortran + std::string(16, '\0'));
  REQUIRE(write_error(arrays, turned).code == ErrorCode::kUnsupported);
}

TEST_CASE("hdf5 goes on after a refused sample", "[formats][hdf5]") {
  TemporaryFolder folder;
  const auto writer =
      find_format("hdf5").create(folder / "a.h5", one_field({"cls", FieldKind::kClass, {}, false}));
  Sample good("good");
  good.add("cls", "3");
  Sample bad("bad");
  bad.add("cls", "three");
  REQUIRE_THROWS_AS(writer->write(bad.view()), Error);
  writer->write(good.view());
  REQUIRE_THROWS_AS(writer->write(bad.view()), Error);
  writer->close();
  Opened opened(folder / "a.h5");
  REQUIRE(opened.reader().size() == 1);
  REQUIRE(opened.at(0).key() == "good");
}

TEST_CASE("hdf5 leaves nothing of a shard that was not closed", "[formats][hdf5]") {
  TemporaryFolder folder;
  {
    const auto writer = find_format("hdf5").create(folder / "a.h5", image_options(0));
    for (unsigned n = 0; n < 8; ++n) writer->write(image_sample(n, 300'000).view());
  }
  REQUIRE(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("hdf5 says when the promised number of samples is wrong", "[formats][hdf5]") {
  TemporaryFolder folder;
  const auto writer = find_format("hdf5").create(folder / "a.h5", image_options(2));
  writer->write(image_sample(0, 1).view());
  REQUIRE(error_of([&] { writer->close(); }).code == ErrorCode::kInvalidArgument);
  writer->write(image_sample(1, 1).view());
  REQUIRE(error_of([&] { writer->write(image_sample(2, 1).view()); }).code ==
          ErrorCode::kInvalidArgument);
  writer->close();
}

namespace {

// Runs `work` in a child and returns its exit status (128 + signal).
int in_child(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    int status = 99;
    try {
      status = work();
    } catch (...) {
    }
    _exit(status);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// 0: refused as it should be, with nothing left behind.
int fill_disk(const std::filesystem::path& folder, ErrorCode code, std::size_t jpg_bytes) {
  try {
    const auto writer = find_format("hdf5").create(folder / "a.h5", image_options(0));
    for (unsigned n = 0; n < 100'000'000 / (jpg_bytes + 100); ++n) {
      writer->write(image_sample(n, jpg_bytes).view());
    }
    writer->close();
  } catch (const Error& error) {
    if (error.code() != code || error.info().path != (folder / "a.h5").string()) return 2;
    return std::filesystem::is_empty(folder) ? 0 : 3;
  }
  return 1;
}

}  // namespace

TEST_CASE("hdf5 says when a disk is full", "[formats][hdf5]") {
  TemporaryFolder folder;
  if (mount("none", folder.path().c_str(), "tmpfs", 0, "size=6m") != 0) {
    return test::skip("cannot mount a small tmpfs");
  }
  // Samples of 300 kB fail while data is written; empty ones while offsets and metadata are.
  const int large =
      in_child([&] { return fill_disk(folder.path(), ErrorCode::kResourceExhausted, 300'000); });
  const int small =
      in_child([&] { return fill_disk(folder.path(), ErrorCode::kResourceExhausted, 400); });
  umount(folder.path().c_str());
  REQUIRE(large == 0);
  REQUIRE(small == 0);
}

TEST_CASE("hdf5 says when a file may not grow at any point of writing", "[formats][hdf5]") {
  TemporaryFolder folder;
  write_images(folder / "whole.h5", 12, 300'000, false);
  const auto whole = std::filesystem::file_size(folder / "whole.h5");
  std::filesystem::remove(folder / "whole.h5");
  for (std::uint64_t limit = 0; limit < whole; limit += whole / 37 + 1) {
    CAPTURE(limit);
    REQUIRE(in_child([&] {
              std::signal(SIGXFSZ, SIG_IGN);
              const rlimit size{limit, limit};
              setrlimit(RLIMIT_FSIZE, &size);
              try {
                write_images(folder / "a.h5", 12, 300'000, false);
              } catch (const Error& error) {
                return error.code() == ErrorCode::kIo ? 0 : 2;
              }
              return 1;
            }) == 0);
    REQUIRE(std::filesystem::is_empty(folder.path()));
  }
}

}  // namespace shardmill
