// SPDX-License-Identifier: Apache-2.0
// Shards of layout version 1 as they were written when it was fixed (tests/data/v1). Every later
// build must read them and, with the same versions of the storage libraries, write them again
// byte for byte. If this test fails, a layout has changed: that needs a new version, not new data.
//
// SHARDMILL_FREEZE=DIR writes the data to DIR instead of comparing.
#include <shardmill/converters/convert.h>

#include <cstdlib>

#include "tests/converters/data.h"
#include "tests/support/catch.h"

using namespace shardmill;
using namespace shardmill::test;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kFormats = {"tar", "lmdb", "hdf5", "folder"};
const fs::path kFrozen = fs::path(SHARDMILL_SOURCE_DIR) / "tests/data/v1";

// Seven samples in three classes with what formats could stumble over.
void make_source(const fs::path& folder) {
  const std::vector<std::string> stems = {"ape/0001", "ape/0002",
                                          "bee/a b",  "bee/\xC3\xA9t\xC3\xA9",
                                          "bee/x",    "cow/" + std::string(120, 'k'),
                                          "cow/last"};
  for (std::size_t i = 0; i < stems.size(); ++i) {
    const std::string stem = (folder / stems[i]).string();
    write_text(stem + ".jpg", i == 4 ? "" : noise(100 + 900 * i, i));
    write_text(stem + ".npy", npy_header({DType::kFloat32, {2, 3}}) + noise(24, 100 + i));
    if (i % 2 == 0) write_text(stem + ".json", "{\"i\": " + std::to_string(i) + "}\n");
    if (i == 3) write_text(stem + ".txt", "");
  }
}

ConvertOptions frozen_options(const fs::path& source, const fs::path& to,
                              const std::string& format) {
  ConvertOptions options = options_for(source, to, format);
  options.shard_samples = 3;
  if (format != "folder") options.shuffle = 1;
  return options;
}

}  // namespace

TEST_CASE("Shards of layout version 1 are read", "[frozen]") {
  TemporaryFolder folder;
  make_source(folder / "source");
  if (std::getenv("SHARDMILL_FREEZE") != nullptr) return skip("writes the data");
  for (const std::string& format : kFormats) {
    INFO(format);
    const VerifyReport report =
        verify_equal((folder / "source").string(), (kFrozen / format).string(), {});
    CHECK(report.ok());
    CHECK(report.samples == 7);
    CHECK(report.content_digest == "c0a8438ee7b7c9b97d1683604929853c");
  }
}

TEST_CASE("Shards of layout version 1 are written again byte for byte", "[frozen]") {
  TemporaryFolder folder;
  make_source(folder / "source");
  const char* freeze = std::getenv("SHARDMILL_FREEZE");
  std::size_t compared = 0;
  for (const std::string& format : kFormats) {
    INFO(format);
    const fs::path out = freeze != nullptr ? fs::path(freeze) / format : folder / format;
    convert(frozen_options(folder / "source", out, format));
    if (freeze != nullptr) continue;
    if (load_manifest(out / "manifest.json").libraries !=
        load_manifest(kFrozen / format / "manifest.json").libraries) {
      WARN(format << ": another version of its library, bytes may differ");
      continue;
    }
    const auto expected = tree(kFrozen / format);
    auto written = tree(out);
    written.erase(".shardmill-origin.json");  // names the source's place
    for (const auto& [name, bytes] : expected) {
      INFO(name);
      REQUIRE(written.contains(name));
      CHECK((written.at(name) == bytes));
    }
    CHECK(written.size() == expected.size());
    ++compared;
  }
  if (freeze == nullptr) CHECK(compared >= 2);  // tar and folder depend on no library
}
