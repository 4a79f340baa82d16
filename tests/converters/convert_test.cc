// SPDX-License-Identifier: Apache-2.0
#include <shardmill/converters/convert.h>

#include <set>

#include "tests/converters/data.h"
#include "tests/support/catch.h"

using namespace shardmill;
using namespace shardmill::test;
namespace fs = std::filesystem;

namespace {
const std::vector<std::string> kFormats = {"tar", "lmdb", "hdf5", "folder"};
}

TEST_CASE("convert carries every format into every format", "[convert]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 3, 5);
  const VerifyReport raw = verify((folder / "raw").string(), {});
  for (const std::string& from : kFormats) {
    auto first = options_for(folder / "raw", folder / from, from);
    first.shard_samples = 4;
    const ConvertReport report = convert(first);
    CHECK(report.samples == 15);
    CHECK(report.shards == (from == "folder" ? 1 : 4));
    CHECK(report.content_digest == raw.content_digest);
    for (const std::string& to : kFormats) {
      INFO(from << " to " << to);
      const fs::path target = folder / (from + "-" + to);
      CHECK(convert(options_for(folder / from, target, to)).samples == 15);
      const VerifyReport equal = verify_equal((folder / "raw").string(), target.string(), {});
      CHECK(equal.ok());
      CHECK(equal.content_digest == raw.content_digest);
      CHECK(Dataset::open(target.string()).classes() == std::vector<std::string>{"a", "b", "c"});
    }
  }
}

TEST_CASE("convert writes rows of variable length where HDF5 is to have them", "[convert]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 3, 5);
  auto options = options_for(folder / "raw", folder / "vlen", "hdf5");
  options.hdf5_vlen = true;
  convert(options);
  CHECK(verify_equal((folder / "raw").string(), (folder / "vlen").string(), {}).ok());
  convert(options_for(folder / "raw", folder / "flat", "hdf5"));
  CHECK(read_text(folder / "vlen/shard-000000.h5") != read_text(folder / "flat/shard-000000.h5"));
  options.format = "tar";
  CHECK_THROWS_AS(convert(options), Error);
}

TEST_CASE("convert writes the same bytes again and for any number of jobs", "[convert]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 2, 12);
  for (const std::string& format : kFormats) {
    auto options = options_for(folder / "raw", folder / (format + "0"), format);
    options.shard_samples = 5;
    options.shuffle = 7;
    convert(options);
    const auto expected = tree(folder / (format + "0"));
    CHECK(expected.contains("manifest.json"));
    CHECK(expected.contains("shard-000000.sum"));
    CHECK_FALSE(expected.contains(".shardmill-plan.json"));
    for (const int jobs : {1, 2, 3, 0}) {
      INFO(format << " jobs " << jobs);
      options.destination = folder / (format + "-again");
      options.jobs = jobs;
      convert(options);
      CHECK(tree(options.destination) == expected);
      fs::remove_all(options.destination);
    }
  }
}

TEST_CASE("convert cuts shards by samples and by source bytes", "[convert]") {
  TemporaryFolder folder;
  for (int i = 0; i < 10; ++i) {
    write_text(folder / "raw/c" / (std::to_string(i) + ".jpg"), noise(1000, 1));  // cls: 1 byte
  }
  auto options = options_for(folder / "raw", folder / "count", "tar");
  options.shard_samples = 4;
  options.name = "train";
  CHECK(convert(options).shard_patterns.at(0) ==
        (folder / "count/train-{000000..000002}.tar").string());
  const Dataset by_count = Dataset::open((folder / "count").string());
  CHECK(by_count.shards().at(0).samples == 4);
  CHECK(by_count.shards().at(2).samples == 2);

  options = options_for(folder / "raw", folder / "size", "tar");
  options.shard_bytes = 3 * 1001;
  convert(options);
  const Dataset by_size = Dataset::open((folder / "size").string());
  REQUIRE(by_size.shards().size() == 4);
  CHECK(by_size.shards().at(0).samples == 3);

  // A sample larger than a shard gets one of its own.
  options.destination = folder / "tiny";
  options.shard_bytes = 1;
  CHECK(convert(options).shards == 10);
}

TEST_CASE("convert shuffles by seed and takes a seeded part", "[convert]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 4, 25);
  const auto source = keys_of((folder / "raw").string());
  const auto shuffled = [&](std::uint64_t seed, std::uint64_t limit) {
    auto options = options_for(folder / "raw", folder / "out", "tar");
    options.shuffle = seed;
    options.limit = limit;
    options.force = true;
    convert(options);
    return keys_of((folder / "out").string());
  };
  const auto one = shuffled(1, 0);
  CHECK(one != source);
  CHECK(one == shuffled(1, 0));
  CHECK(one != shuffled(2, 0));
  CHECK(std::set(one.begin(), one.end()) == std::set(source.begin(), source.end()));
  CHECK(load_manifest(folder / "out/manifest.json").order == "mixed");

  const auto part = shuffled(3, 10);
  CHECK(std::set(part.begin(), part.end()).size() == 10);
  auto options = options_for(folder / "raw", folder / "ordered", "tar");
  options.limit = 10;
  convert(options);
  const auto ordered = keys_of((folder / "ordered").string());
  CHECK(ordered.size() == 10);
  CHECK(std::is_sorted(ordered.begin(), ordered.end()));
  CHECK(ordered != std::vector(source.begin(), source.begin() + 10));
}

TEST_CASE("convert warns about class-sorted results and remembers it", "[convert]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 4, 10);
  std::vector<std::string> warnings;
  Observer observer;
  observer.warning = [&](const std::string& text) { warnings.push_back(text); };
  auto options = options_for(folder / "raw", folder / "sorted", "lmdb");
  const ConvertReport report = convert(options, observer);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings == report.warnings);
  CHECK(warnings[0].find("class-sorted") == 0);
  CHECK(warnings[0].find("--shuffle 1") != std::string::npos);
  CHECK(load_manifest(folder / "sorted/manifest.json").order == "class-sorted");
  options.destination = folder / "mixed";
  options.shuffle = 1;
  CHECK(convert(options, observer).warnings.empty());
  CHECK(load_manifest(folder / "mixed/manifest.json").order == "mixed");
}

TEST_CASE("convert plans the kinds of fields", "[convert]") {
  TemporaryFolder folder;
  const ArrayType type{DType::kFloat32, {2, 2}};
  for (int i = 0; i < 3; ++i) {
    const fs::path stem = folder / "raw" / ("s" + std::to_string(i));
    write_text(stem.string() + ".npy", npy_header(type) + noise(16, 1));
    write_text(stem.string() + ".cls", std::to_string(i));
    write_text(stem.string() + ".id", "0" + std::to_string(i));
    if (i == 1) write_text(stem.string() + ".txt", "");
  }
  for (const std::string& format : kFormats) {
    convert(options_for(folder / "raw", folder / format, format));
    const Manifest manifest = load_manifest(folder / format / "manifest.json");
    const std::vector<FieldSpec> expected = {{"cls", FieldKind::kClass, {}, false},
                                             {"id", FieldKind::kBytes, {}, false},
                                             {"npy", FieldKind::kArray, type, false},
                                             {"txt", FieldKind::kBytes, {}, true}};
    CHECK(manifest.fields == expected);
    CHECK(verify_equal((folder / "raw").string(), (folder / format).string(), {}).ok());
  }
}

TEST_CASE("convert merges sources and refuses what cannot be merged", "[convert]") {
  TemporaryFolder folder;
  make_classes(folder / "one", 2, 3);
  for (const char* name : {"a/x.jpg", "b/y.jpg"}) write_text(folder / "two" / name, noise(50, 9));
  auto options = options_for(folder / "one", folder / "out", "tar");
  options.sources.push_back((folder / "two").string());
  CHECK(convert(options).samples == 8);
  CHECK(keys_of((folder / "out").string()).back() == "b/y");

  options.destination = folder / "twice";
  options.sources[1] = options.sources[0];
  ErrorInfo error = error_of([&] { convert(options); });
  CHECK(error.code == ErrorCode::kDataLoss);
  CHECK(error.place == "sample \"a/n00\"");
  CHECK(error.cause.find("sample 0 of " + (folder / "one").string() + ", and sample 0 of") !=
        std::string::npos);
  CHECK_FALSE(fs::exists(folder / "twice"));

  write_text(folder / "three/z/1.jpg", "x");
  options.sources[1] = (folder / "three").string();
  error = error_of([&] { convert(options); });
  CHECK(error.code == ErrorCode::kInvalidArgument);
  CHECK(error.cause.find("numbers its classes differently") != std::string::npos);
}

TEST_CASE("convert checks its options before it looks at the source", "[convert]") {
  TemporaryFolder folder;
  const auto cause = [&](auto change) {
    auto options = options_for(folder / "none", folder / "out", "tar");
    change(options);
    const ErrorInfo error = error_of([&] { convert(options); });
    CHECK(error.code == ErrorCode::kInvalidArgument);
    CHECK_FALSE(error.remedy.empty());
    return error.cause;
  };
  CHECK(cause([](auto& o) { o.format = "zip"; }).find("unknown format") == 0);
  CHECK(cause([](auto& o) { o.name = "../x"; }).find("cannot begin") != std::string::npos);
  CHECK(cause([](auto& o) { o.shard_bytes = 0; }) == "is 0");
  CHECK(cause([](auto& o) {
          o.image_size = ImageSize{8, 0};
        }).find("sides must lie") != std::string::npos);
  CHECK(cause([](auto& o) { o.quality = 0; }).find("0 is not between") == 0);
  CHECK(cause([](auto& o) { o.eos = 1; }).find("stands between samples") == 0);
  CHECK(cause([](auto& o) { o.seq_len = 5; }).find("need the type") != std::string::npos);
  CHECK(cause([](auto& o) {
          o.max_errors = Amount{1, 0};
        }).find("first error") != std::string::npos);
  CHECK(cause([](auto& o) { o.rank = 2; }).find("is not one of 1 ranks") != std::string::npos);
  CHECK(cause([](auto& o) {
          o.split = {{"a/b", 1}};
        }).find("cannot name a directory") != std::string::npos);
}

TEST_CASE("A dry run plans and writes nothing", "[convert]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 2, 5);
  auto options = options_for(folder / "raw", folder / "out", "tar");
  options.dry_run = true;
  options.shard_samples = 4;
  const ConvertReport report = convert(options);
  CHECK(report.samples == 10);
  CHECK(report.shards == 3);
  CHECK_FALSE(fs::exists(folder / "out"));
  // The forecast is near the truth, in every format.
  for (int i = 0; i < 40; ++i) {
    write_text(folder / "large/c" / ("n" + std::to_string(i) + ".jpg"), noise(30'000, 1));
  }
  for (const std::string& format : kFormats) {
    INFO(format);
    auto real = options_for(folder / "large", folder / format, format);
    real.dry_run = true;
    const auto forecast = static_cast<double>(convert(real).bytes);
    real.dry_run = false;
    const auto bytes = static_cast<double>(convert(real).bytes);
    CHECK(forecast > bytes * 0.85);
    CHECK(forecast < bytes * 1.3);
  }
}
