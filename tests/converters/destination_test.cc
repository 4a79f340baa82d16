// SPDX-License-Identifier: Apache-2.0
// What a conversion refuses to touch, and what it leaves when it does not succeed.
#include <shardmill/converters/convert.h>

#include "tests/converters/data.h"
#include "tests/support/catch.h"

using namespace shardmill;
using namespace shardmill::test;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kFormats = {"tar", "lmdb", "hdf5", "folder"};

// A tar whose last sample cannot be stored in a folder, and has no class number for int64.
void make_bad_tar(const fs::path& file) {
  const CommandResult made =
      run_command("/usr/bin/python3 - '" + file.string() +
                  "' <<'E'\nimport io, sys, tarfile\nwith tarfile.open(sys.argv[1], 'w') as t:\n"
                  "  for name, data in [(f'k{i}.bin', b'x' * 1000) for i in range(9)] + "
                  "[('../k9.bin', b'y')]:\n"
                  "    info = tarfile.TarInfo(name); info.size = len(data); t.addfile(info, "
                  "io.BytesIO(data))\nE");
  REQUIRE(made.err == "");
}

}  // namespace

TEST_CASE("convert refuses to overwrite", "[convert]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 2, 2);
  make_classes(folder / "other", 2, 3);
  for (const std::string& format : kFormats) {
    INFO(format);
    auto options = options_for(folder / "raw", folder / format, format);
    convert(options);
    const auto before = tree(folder / format);
    options.sources = {(folder / "other").string()};
    const ErrorInfo error = error_of([&] { convert(options); });
    CHECK(error.code == ErrorCode::kInvalidArgument);
    CHECK(error.remedy.find("--force") != std::string::npos);
    CHECK(tree(folder / format) == before);

    // Replaced by another format, with fewer and more shards, nothing of the old is left.
    for (const std::string& next : kFormats) {
      options = options_for(folder / "other", folder / format, next);
      options.force = true;
      options.shard_samples = 4;
      convert(options);
      options.destination = folder / "fresh";
      convert(options);
      CHECK(tree(folder / format) == tree(folder / "fresh"));
      fs::remove_all(folder / "fresh");
    }
  }
}

TEST_CASE("--force replaces only shardmill's directories and files", "[convert]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 2, 2);
  auto options = options_for(folder / "raw", folder / "out", "tar");
  options.force = true;
  write_text(folder / "out/precious.txt", "mine");
  ErrorInfo error = error_of([&] { convert(options); });
  CHECK(error.code == ErrorCode::kInvalidArgument);
  CHECK(error.cause.find("no shardmill dataset") != std::string::npos);
  CHECK(tree(folder / "out") == std::map<std::string, std::string>{{"precious.txt", "mine"}});

  fs::remove(folder / "out/precious.txt");
  convert(options);  // an empty directory is fine
  write_text(folder / "out/precious.txt", "mine");
  convert(options);
  CHECK(read_text(folder / "out/precious.txt") == "mine");

  write_text(folder / "file", "x");
  options.destination = folder / "file";
  error = error_of([&] { convert(options); });
  CHECK(error.cause.find("not a directory") != std::string::npos);
  CHECK(read_text(folder / "file") == "x");

  // A manifest that points outside its directory removes nothing there.
  write_text(folder / "evil/manifest.json",
             R"({"format":"tar","shardlist":[{"url":"../file","nsamples":1}]})");
  options.destination = folder / "evil";
  convert(options);
  CHECK(read_text(folder / "file") == "x");
}

TEST_CASE("convert replaces what a killed run left", "[convert]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 2, 2);
  auto options = options_for(folder / "raw", folder / "out", "lmdb");
  convert(options);
  const auto expected = tree(folder / "out");
  fs::remove(folder / "out/manifest.json");
  write_text(folder / "out/.shardmill-plan.json", "{}");
  write_text(folder / "out/.shardmill-journal-0", "half a line");
  write_text(folder / "out/.shard-000001.lmdb.shardmill-partial/data.mdb", "half");
  CHECK(error_of([&] { convert(options); }).code == ErrorCode::kInvalidArgument);
  options.force = true;
  convert(options);
  CHECK(tree(folder / "out") == expected);
}

TEST_CASE("convert refuses a destination in or above its source", "[convert]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 2, 2);
  for (const char* place : {"raw", "raw/out", "raw/a/../out/", "."}) {
    INFO(place);
    auto options = options_for(folder / "raw", folder / place, "tar");
    options.force = true;
    const auto before = tree(folder.path());
    const ErrorInfo error = error_of([&] { convert(options); });
    CHECK(error.code == ErrorCode::kInvalidArgument);
    CHECK(error.cause.find("the source") != std::string::npos);
    CHECK(tree(folder.path()) == before);
  }
  convert(options_for(folder / "raw", folder / "tar", "tar"));
  auto options = options_for(folder / "tar", folder / "tar", "tar");
  options.force = true;
  CHECK(error_of([&] { convert(options); }).code == ErrorCode::kInvalidArgument);
  CHECK(verify_equal((folder / "raw").string(), (folder / "tar").string(), {}).ok());
}

TEST_CASE("A failed conversion leaves what can be resumed", "[convert]") {
  TemporaryFolder folder;
  make_bad_tar(folder / "bad.tar");
  for (const int jobs : {1, 3}) {
    auto options = options_for(folder / "bad.tar", folder / "out", "folder");
    options.jobs = jobs;
    const ErrorInfo error = error_of([&] { convert(options); });
    CHECK(error.place.find("../k9") != std::string::npos);
    CHECK(error.remedy.find("--resume") != std::string::npos);
    CHECK(only_resumable(folder / "out"));
    CHECK_FALSE(fs::exists(folder / "out/k0.bin"));
    options.force = true;  // begins again
    CHECK_FALSE(error_of([&] { convert(options); }).cause.empty());
    CHECK(only_resumable(folder / "out"));
    fs::remove_all(folder / "out");

    // Shards that were finished before the failure stay, those behind it are not made.
    for (int i = 0; i < 9; ++i) {
      write_text(folder / "flat" / ("k" + std::to_string(i) + ".jpg"), "no image");
    }
    options = options_for(folder / "flat", folder / "out", "lmdb");
    options.jobs = jobs;
    options.shard_samples = 2;
    options.image_output = ImageOutput::kRaw;
    options.image_size = ImageSize{8, 8};
    CHECK_FALSE(error_of([&] { convert(options); }).cause.empty());
    CHECK(only_resumable(folder / "out"));
    CHECK_FALSE(fs::exists(folder / "out/shard-000000.lmdb"));
    fs::remove_all(folder / "out");
  }
}

TEST_CASE("A stopped conversion leaves what can be resumed", "[convert]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 4, 50);
  for (const std::string& format : kFormats) {
    auto options = options_for(folder / "raw", folder / (format + "-whole"), format);
    options.shard_samples = 10;
    convert(options);
    const auto expected = tree(options.destination);
    options.destination = folder / "out";
    for (const int jobs : {1, 2}) {
      INFO(format << " jobs " << jobs);
      for (const std::string_view phase : {"scanning", "writing"}) {
        std::stop_source stop;
        Observer observer;
        observer.stop = stop.get_token();
        observer.progress = [&](const Progress& progress) {
          if (progress.phase == phase) stop.request_stop();
        };
        options.jobs = jobs;
        CHECK_THROWS_AS(convert(options, observer), Interrupted);
        if (phase == "scanning") CHECK_FALSE(fs::exists(folder / "out"));
      }
      CHECK(only_resumable(folder / "out"));
      options.resume = true;
      convert(options);
      options.resume = false;
      CHECK(tree(folder / "out") == expected);
      fs::remove_all(folder / "out");
    }
  }
}
