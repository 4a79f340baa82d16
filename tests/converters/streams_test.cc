// SPDX-License-Identifier: Apache-2.0
// Compressed and piped tars through convert, inspect and verify.
#include <shardmill/converters/convert.h>
#include <shardmill/converters/streams.h>
#include <shardmill/converters/verify.h>

#include "tests/converters/data.h"
#include "tests/support/catch.h"
#include "tests/tools/program.h"

using namespace shardmill;
using namespace shardmill::test;
namespace fs = std::filesystem;

namespace {

// Twelve samples as tar shards in `plain`, and compressed in `packed`.
struct Fixture {
  TemporaryFolder folder;
  std::string digest;
  Fixture() {
    make_classes(folder / "raw", 2, 6);
    ConvertOptions options{{(folder / "raw").string()}, folder / "plain", "tar"};
    options.shard_samples = 5;
    options.shuffle = 3;
    options.jobs = 1;
    digest = convert(options).content_digest;
    fs::create_directories(folder / "packed");
    for (int i = 0; i < 3; ++i) {
      const std::string name = "shard-00000" + std::to_string(i) + ".tar";
      REQUIRE(run_command("gzip -c '" + (folder / "plain" / name).string() + "' > '" +
                          (folder / "packed" / (name + ".gz")).string() + "'")
                  .status == 0);
    }
  }
  CommandResult operator()(const std::string& arguments) const {
    return shardmill_in(folder.path(), arguments);
  }
};

}  // namespace

TEST_CASE("A directory of compressed tars is converted, inspected and verified",
          "[converters][stream]") {
  const Fixture data;
  const std::string packed = (data.folder / "packed").string();
  CHECK(is_stream(packed));
  CHECK_FALSE(is_stream((data.folder / "plain").string()));
  CHECK_THROWS_WITH(Dataset::open(packed), Catch::Contains("is compressed (gzip)") &&
                                               Catch::Contains("shard-000000.tar.gz DIR --to tar"));
  const VerifyReport checked = verify(packed, {});
  CHECK(checked.ok());
  CHECK(checked.content_digest == data.digest);
  CHECK(verify_equal(packed, (data.folder / "plain").string(), {}).ok());
  for (const char* format : {"tar", "lmdb", "hdf5", "folder"}) {
    ConvertOptions options{{packed}, data.folder / format, format};
    options.jobs = 2;
    CHECK(convert(options).content_digest == data.digest);
    CHECK_FALSE(
        fs::exists(data.folder / (std::string(".") + format + "-unpacked.shardmill-partial")));
  }
  const Inspection seen = inspect_stream((data.folder / "packed/*.gz").string());
  CHECK(seen.samples == 12);
  CHECK(seen.shards == 3);
  CHECK(seen.fields.size() == 2);
}

TEST_CASE("A tar on standard input is a source", "[converters][stream]") {
  const Fixture data;
  const auto piped = data("convert - out --to lmdb --quiet < packed/shard-000000.tar.gz");
  CHECK(piped.status == 0);
  CHECK(data("verify packed/shard-000000.tar.gz out").status == 0);
  const auto listed = data("inspect - --list < plain/shard-000001.tar");
  CHECK(listed.out == data("inspect plain/shard-000001.tar --list").out);
  const std::string key = listed.out.substr(0, listed.out.find('\n'));
  CHECK_THAT(data("inspect packed/shard-000001.tar.gz --sample " + key).out,
             Catch::Contains("sample 0: " + key));
  CHECK(data("inspect packed/shard-000001.tar.gz --extract x").status == 0);
  CHECK(fs::exists(data.folder / "x" / (key + ".jpg")));
  const auto refused = data("bench - ");
  CHECK(refused.status == 1);
  CHECK_THAT(refused.err, Catch::Contains("standard input can only be read in order"));
}

TEST_CASE("Damage in a compressed tar is found, and nothing is left of its conversion",
          "[converters][stream]") {
  const Fixture data;
  const fs::path file = data.folder / "packed/shard-000001.tar.gz";
  std::string bytes = read_text(file);
  bytes[bytes.size() - 6] ^= 1;  // of the checksum at the end
  write_text(file, bytes);
  const VerifyReport report = verify((data.folder / "packed").string(), {});
  REQUIRE(report.damaged.size() == 1);
  CHECK(report.damaged[0].shard == file.string());
  CHECK_THAT(report.damaged[0].cause, Catch::Contains("incorrect data check"));
  ConvertOptions options{{(data.folder / "packed").string()}, data.folder / "out", "tar"};
  CHECK_THROWS_WITH(convert(options), Catch::Contains("incorrect data check"));
  CHECK(tree(data.folder.path()).count("out") == 0);
  CHECK_FALSE(fs::exists(data.folder / ".out-unpacked.shardmill-partial"));
}

TEST_CASE("verify names what differs from a compressed tar", "[converters][stream]") {
  const Fixture data;
  write_text(data.folder / "raw/a/n03.jpg", "another picture");
  convert(options_for(data.folder / "raw", data.folder / "other", "lmdb"));
  const VerifyReport report =
      verify_equal((data.folder / "packed").string(), (data.folder / "other").string(), {});
  CHECK(report.equal == false);
  REQUIRE(report.differences.size() == 1);
  CHECK(report.differences[0].key == "a/n03");
  CHECK(report.differences[0].field == "jpg");
}
