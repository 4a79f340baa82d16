// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/support.h"

namespace fs = std::filesystem;
using shardmill::test::read_text;
using shardmill::test::run_command;
using shardmill::test::TemporaryFolder;

namespace {

std::map<std::string, std::string> files_below(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      files[fs::relative(entry.path(), folder).string()] = read_text(entry.path());
    }
  }
  return files;
}

int make(const fs::path& folder, const std::string& options) {
  return run_command(MAKE_PHOTOS " " + folder.string() + " " + options).status;
}

}  // namespace

TEST_CASE("make_photos makes class directories with three kinds of images", "[examples]") {
  const TemporaryFolder folder;
  REQUIRE(make(folder / "a", "--count 120 --classes 3 --seed 5") == 0);
  const auto files = files_below(folder / "a");
  CHECK(files.size() == 120);
  std::map<std::string, int> per_class;
  std::map<std::string, int> kinds;
  std::uint64_t jpeg_bytes = 0;
  for (const auto& [name, bytes] : files) {
    ++per_class[fs::path(name).parent_path().string()];
    const std::string kind = fs::path(name).extension().string();
    ++kinds[kind];
    if (kind == ".jpg") jpeg_bytes += bytes.size();
  }
  CHECK(per_class == std::map<std::string, int>{{"amber", 40}, {"basil", 40}, {"coral", 40}});
  CHECK(kinds.size() == 3);
  CHECK(kinds[".png"] > 0);
  CHECK(kinds[".webp"] > kinds[".png"]);
  // As in collections of photographs; flat colour would give a tenth of it.
  const std::uint64_t mean = jpeg_bytes / static_cast<std::uint64_t>(kinds[".jpg"]);
  CHECK(mean > 50'000);
  CHECK(mean < 120'000);
}

TEST_CASE("make_photos gives equal files for equal options only", "[examples]") {
  const TemporaryFolder folder;
  REQUIRE(make(folder / "a", "--count 40 --seed 5") == 0);
  REQUIRE(make(folder / "b", "--count 40 --seed 5") == 0);
  REQUIRE(make(folder / "c", "--count 40 --seed 6") == 0);
  CHECK(files_below(folder / "a") == files_below(folder / "b"));
  CHECK(files_below(folder / "a") != files_below(folder / "c"));
}

TEST_CASE("make_photos refuses a used folder and wrong options", "[examples]") {
  const TemporaryFolder folder;
  REQUIRE(make(folder / "a", "--count 1") == 0);
  CHECK(make(folder / "a", "--count 1") == 1);
  CHECK(files_below(folder / "a").size() == 1);
  CHECK(make(folder / "b", "--count none") == 2);
  CHECK(make(folder / "b", "--colour 3") == 2);
  CHECK_FALSE(fs::exists(folder / "b"));
}
