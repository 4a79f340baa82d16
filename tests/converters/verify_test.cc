// SPDX-License-Identifier: Apache-2.0
#include <shardmill/converters/verify.h>

#include <set>

#include "tests/converters/data.h"
#include "tests/support/catch.h"

using namespace shardmill;
using namespace shardmill::test;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kShardFormats = {"tar", "lmdb", "hdf5"};

void flip(const fs::path& file, std::size_t at) {
  std::string bytes = read_text(file);
  bytes.at(at) ^= 0x10;
  write_text(file, bytes);
}

}  // namespace

TEST_CASE("verify and convert take data for what they are told", "[verify]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 2, 3);
  const std::string flat = (folder / "raw").string() + "#as=flat";
  const VerifyReport report = verify(flat, {});
  CHECK(report.ok());
  CHECK(report.samples == 6);
  convert(options_for(flat, folder / "out", "tar"));
  CHECK(verify_equal(flat, (folder / "out").string(), {}).ok());
  CHECK_FALSE(verify_equal((folder / "raw").string(), (folder / "out").string(), {}).ok());
  CHECK_THROWS_AS(convert(options_for(flat, folder / "raw/out", "tar")), Error);
}

TEST_CASE("verify finds every flipped byte of a shard", "[verify]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 2, 3);
  for (const std::string& format : kShardFormats) {
    auto options = options_for(folder / "raw", folder / format, format);
    convert(options);
    const std::string url = load_manifest(folder / format / "manifest.json").shards.at(0).url;
    const fs::path file = find_format(format).data_file(folder / format / url);
    const std::string good = read_text(file);
    for (std::size_t at = 0; at < good.size(); at += good.size() / 97) {
      INFO(format << " byte " << at);
      flip(file, at);
      const VerifyReport report = verify((folder / format).string(), {.jobs = 1});
      CHECK_FALSE(report.ok());
      CHECK_FALSE(report.damaged.empty());
      write_text(file, good);
    }
    write_text(file, good.substr(0, good.size() / 2));
    CHECK_FALSE(verify((folder / format).string(), {.jobs = 1}).ok());
    write_text(file, good);
    CHECK(verify((folder / format).string(), {.jobs = 1}).ok());
  }
}

TEST_CASE("verify names the damaged sample and checks all others", "[verify]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 2, 10);
  const std::string payload = read_text(folder / "raw/a/n05.jpg");
  for (const std::string& format : kShardFormats) {
    INFO(format);
    auto options = options_for(folder / "raw", folder / format, format);
    options.shard_samples = 8;
    convert(options);
    const std::string url = load_manifest(folder / format / "manifest.json").shards.at(0).url;
    const fs::path file = find_format(format).data_file(folder / format / url);
    const std::size_t at = read_text(file).find(payload.substr(0, 64));
    REQUIRE(at != std::string::npos);
    flip(file, at + 10);
    const VerifyReport report = verify((folder / format).string(), {.jobs = 2});
    REQUIRE(report.damaged.size() == 2);
    CHECK(report.samples == 20);
    CHECK(report.damaged[0].key == "a/n05");
    CHECK(report.damaged[0].shard == (folder / format / url).string());
    CHECK(report.damaged[1].cause.find("XXH3") != std::string::npos);
    CHECK(verify((folder / format).string(), {.shards = "*-000001.*"}).ok());
  }
  convert(options_for(folder / "raw", folder / "folder", "folder"));
  flip(folder / "folder/a/n05.jpg", 10);
  const VerifyReport report = verify((folder / "folder").string(), {});
  REQUIRE_FALSE(report.damaged.empty());
  CHECK(report.damaged[0].key == "a/n05");
}

TEST_CASE("verify goes on after a shard that is missing or no shard", "[verify]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 2, 10);
  for (const std::string& format : kShardFormats) {
    INFO(format);
    auto options = options_for(folder / "raw", folder / format, format);
    options.shard_samples = 5;
    convert(options);
    const Manifest manifest = load_manifest(folder / format / "manifest.json");
    const fs::path first = folder / format / manifest.shards.at(0).url;
    fs::remove_all(first);
    VerifyReport report = verify((folder / format).string(), {});
    REQUIRE(report.damaged.size() == 1);
    CHECK(report.damaged[0].cause.starts_with("the shard is missing ("));
    CHECK(report.samples == 15);
    if (format == "lmdb") fs::create_directory(first);
    write_text(find_format(format).data_file(first), "this is no shard");
    report = verify((folder / format).string(), {});
    CHECK(report.samples == 15);
    CHECK_FALSE(report.damaged.empty());
    CHECK(report.damaged[0].shard == first.string());
  }
}

TEST_CASE("verify decodes images if asked", "[verify]") {
  TemporaryFolder folder;
  write_text(folder / "raw/a/1.jpg", "no image at all");
  CHECK(verify((folder / "raw").string(), {}).ok());
  const VerifyReport report = verify((folder / "raw").string(), {.decode = true});
  REQUIRE(report.damaged.size() == 1);
  CHECK(report.damaged[0].key == "a/1");
  CHECK(report.damaged[0].field == "jpg");
}

TEST_CASE("verify compares whatever the order and says what differs", "[verify]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 2, 10);
  auto options = options_for(folder / "raw", folder / "hdf5", "hdf5");
  options.shuffle = 3;
  options.shard_samples = 7;
  convert(options);
  CHECK(verify_equal((folder / "raw").string(), (folder / "hdf5").string(), {}).equal == true);

  fs::copy(folder / "raw", folder / "changed", fs::copy_options::recursive);
  flip(folder / "changed/a/n03.jpg", 5);
  fs::remove(folder / "changed/a/n04.jpg");
  write_text(folder / "changed/a/n05.txt", "more");
  write_text(folder / "changed/b/new.jpg", "new");
  const VerifyReport report =
      verify_equal((folder / "hdf5").string(), (folder / "changed").string(), {});
  CHECK(report.equal == false);
  CHECK(report.damaged.empty());
  std::set<std::string> found;
  for (const Difference& d : report.differences)
    found.insert(d.key + "|" + d.field + "|" + d.cause);
  CHECK(found == std::set<std::string>{"a/n03|jpg|values differ, 211 and 211 bytes",
                                       "a/n04||only the first has this sample",
                                       "a/n05|txt|only the second has it",
                                       "b/new||only the second has this sample"});
}

TEST_CASE("verify is not blind to a damaged list of hashes or digest", "[verify]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 1, 3);
  convert(options_for(folder / "raw", folder / "out", "tar"));
  flip(folder / "out/shard-000000.sum", 30);
  VerifyReport report = verify((folder / "out").string(), {});
  REQUIRE(report.damaged.size() == 1);
  CHECK(report.damaged[0].shard == (folder / "out/shard-000000.sum").string());
  fs::remove(folder / "out/shard-000000.sum");
  CHECK(verify((folder / "out").string(), {}).ok());
  Manifest manifest = load_manifest(folder / "out/manifest.json");
  manifest.content_digest[0] = manifest.content_digest[0] == '0' ? '1' : '0';
  save_manifest(folder / "out/manifest.json", manifest);
  report = verify((folder / "out").string(), {});
  REQUIRE(report.damaged.size() == 1);
  CHECK(report.damaged[0].cause.find("content digest") == 0);
}

TEST_CASE("Every cut and every flip in a folder's files is found", "[verify][folder]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 2, 1);
  ConvertOptions options{{(folder / "raw").string()}, folder / "out", "folder"};
  options.jobs = 1;
  convert(options);
  const std::string out = (folder / "out").string();
  VerifyOptions verify_options;
  verify_options.jobs = 1;
  REQUIRE(verify(out, verify_options).ok());
  for (const auto& [name, good] : tree(folder / "out")) {
    if (good == "DIR" || good.empty() || name == "manifest.json") continue;
    if (name == ".shardmill-origin.json") continue;  // says where the data come from
    INFO(name);
    for (std::size_t part = 0; part < 64; ++part) {
      write_text(folder.path() / "out" / name, good.substr(0, good.size() * part / 64));
      CHECK_FALSE(verify(out, verify_options).ok());
      std::string flipped = good;
      flipped[good.size() * part / 64] ^= static_cast<char>(1 << part % 8);
      write_text(folder.path() / "out" / name, flipped);
      CHECK_FALSE(verify(out, verify_options).ok());
    }
    fs::remove(folder.path() / "out" / name);
    // Without the list of hashes the digest in the manifest still tells what there is.
    CHECK(verify(out, verify_options).ok() == name.ends_with(".sum"));
    write_text(folder.path() / "out" / name, good);
  }
  CHECK(verify(out, verify_options).ok());
}

TEST_CASE("verify prints the command that makes only the damaged shards again", "[verify]") {
  TemporaryFolder folder;
  make_classes(folder / "raw it's", 2, 12);
  for (const std::string& format : kShardFormats) {
    INFO(format);
    auto options = options_for(folder / "raw it's", folder / format, format);
    options.shard_samples = 5;
    options.shuffle = 3;
    options.split = {{"train", 0.7}, {"val", 0.3}};
    convert(options);
    const auto whole = tree(folder / format);
    const std::string part = (folder / format / "train").string();
    CHECK(verify(part, {}).rebuild.empty());
    const Manifest manifest = load_manifest(fs::path(part) / "manifest.json");
    const Format& kind = find_format(format);
    flip(kind.data_file(fs::path(part) / manifest.shards.at(1).url), 700);
    fs::remove_all(fs::path(part) / manifest.shards.at(0).url);
    const auto untouched = fs::last_write_time(fs::path(part) / manifest.shards.at(2).url);
    const VerifyReport report = verify(part, {});
    CHECK(report.damaged.at(0).cause == "the shard is missing (5 samples)");
    REQUIRE(report.rebuild.starts_with("rm -r "));
    CHECK(report.rebuild.ends_with(" --resume"));
    const CommandResult rebuilt = run_command(
        "shardmill() { '" SHARDMILL_BINARY_DIR "/bin/shardmill' \"$@\"; }; " + report.rebuild);
    INFO(report.rebuild << "\n" << rebuilt.err);
    CHECK(rebuilt.status == 0);
    CHECK(tree(folder / format) == whole);
    CHECK(fs::last_write_time(fs::path(part) / manifest.shards.at(2).url) == untouched);
  }
}
