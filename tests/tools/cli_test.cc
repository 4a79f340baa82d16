// SPDX-License-Identifier: Apache-2.0
// The program as people and scripts meet it: output, messages, exit codes.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/converters/data.h"
#include "tests/support/catch.h"
#include "tests/tools/program.h"

using namespace shardmill;
using namespace shardmill::test;
using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

// Four files in two classes, and the same as tar shards.
struct Fixture {
  TemporaryFolder folder;
  Fixture() { make_classes(folder / "raw", 2, 2); }
  CommandResult operator()(const std::string& arguments) const {
    return shardmill_in(folder.path(), arguments);
  }
};

void check_failure(const CommandResult& result, int status, const std::string& message) {
  CHECK(result.status == status);
  CHECK(result.err == message + "\n");
  CHECK(result.out == "");
}

}  // namespace

TEST_CASE("Wrong usage is one line and exit code 2", "[cli]") {
  const Fixture run;
  check_failure(run("convert raw out"), 2,
                "shardmill: --to is required; see shardmill convert --help");
  check_failure(run("convert raw --to tar"), 2,
                "shardmill: SOURCE and DEST are needed; see shardmill convert --help");
  check_failure(run("convert raw out --to tar --frob"), 2,
                "shardmill: the following argument was not expected: --frob; see shardmill convert "
                "--help");
  check_failure(run("convert raw out --to zip"), 2,
                "shardmill: --to: unknown format \"zip\"; choose one of folder, hdf5, lmdb, tar");
  check_failure(run("convert raw out --to tar --shard-size 1X"), 2,
                "shardmill: --shard-size: \"1X\" is not a size such as 64K, 256M or 1G; see "
                "shardmill convert --help");
  check_failure(run("convert raw out --to tar --image-size 8x"), 2,
                "shardmill: --image-size: \"8x\" is neither N nor WxH, for example 256 or 224x224; "
                "see shardmill convert --help");
  check_failure(run("convert raw out --to tar --shard-size 1M --shard-count 5"), 2,
                "shardmill: --shard-size excludes --shard-count; see shardmill convert --help");
  CHECK(run("").status == 2);
  CHECK(run("frobnicate").status == 2);
  CHECK_FALSE(fs::exists(run.folder / "out"));
}

TEST_CASE("Failures name path, place, cause and remedy, with exit code 1", "[cli]") {
  const Fixture run;
  for (const std::string verb : {"inspect nix", "verify nix", "convert nix out --to tar"}) {
    check_failure(run(verb), 1, "shardmill: nix: no such file or directory; check the path");
  }
  check_failure(run("inspect 'x-*.tar'"), 1,
                "shardmill: x-*.tar: no file matches this pattern; check the path");
  fs::create_directory(run.folder / "empty");
  check_failure(run("convert empty out --to tar"), 1,
                "shardmill: empty: holds no samples (directory without manifest and shards: raw "
                "files); give a folder of class directories with files, or shards");
  write_text(run.folder / "strange", "neither this nor that, but long enough to be something");
  check_failure(run("convert strange out --to tar"), 1,
                "shardmill: strange: no storage format recognises this file by its content; give "
                "a tar, LMDB or HDF5 file, a folder, or a manifest.json");
  check_failure(run("inspect raw --sample a/none"), 1,
                "shardmill: raw: sample \"a/none\": there is no sample of this key or number among "
                "4; shardmill inspect --list shows the keys");
}

TEST_CASE("A damaged image in raw mode is named", "[cli]") {
  const Fixture run;
  const CommandResult result =
      run("convert raw out --to hdf5 --image-size 8x8 --image-format raw --quiet");
  CHECK(result.status == 1);
  CHECK(result.err.find("@/raw: sample \"a/n00\" field \"jpg\": ") != std::string::npos);
  CHECK(result.err.find("; repair or remove this image, then run again with --resume\n") !=
        std::string::npos);
  CHECK(only_resumable(run.folder / "out"));
}

TEST_CASE("An unreadable file is named", "[cli]") {
  const Fixture run;
  fs::permissions(run.folder / "raw/b/n01.jpg", fs::perms::none);
  // Root may read everything, unless it gives that up.
  const std::string unprivileged =
      geteuid() == 0 ? "setpriv --bounding-set -dac_override,-dac_read_search " : "";
  const CommandResult result =
      run_command("cd '" + run.folder.path().string() + "' && " + unprivileged +
                  "'" SHARDMILL_BINARY_DIR "/bin/shardmill' convert raw out --to tar --quiet");
  if (result.err.find("setpriv: ") == 0) return skip("setpriv is not permitted");
  CHECK(result.status == 1);
  CHECK(result.err.find("/raw/b/n01.jpg: sample \"b/n01\" field \"jpg\": cannot open: permission "
                        "denied; check owner and permissions") != std::string::npos);
  CHECK_FALSE(fs::exists(run.folder / "out"));
}

TEST_CASE("--json prints one object, also on failure", "[cli]") {
  const Fixture run;
  for (const auto& [arguments, status] : std::map<std::string, int>{
           {"convert raw out --to zip", 2}, {"convert raw --frob", 2}, {"inspect nix", 1}}) {
    const CommandResult result = run(arguments + " --json");
    CHECK(result.status == status);
    const Json error = Json::parse(result.out).at("error");
    for (const char* name : {"code", "path", "place", "cause", "remedy"}) {
      CHECK(error.at(name).is_string());
    }
    CHECK(std::count(result.out.begin(), result.out.end(), '\n') == 1);
    CHECK(result.err.find("shardmill: ") == 0);
  }
  CHECK(Json::parse(run("inspect nix --json").out).at("error").at("code") == "not_found");
}

TEST_CASE("convert --json, its last lines, and the command that it names", "[cli]") {
  const Fixture run;
  const CommandResult result = run("convert raw 'o ut' --to tar --shard-count 1 --json");
  CHECK(result.status == 0);
  const Json json = Json::parse(result.out);
  CHECK(json.at("samples") == 4);
  CHECK(json.at("shards") == 4);
  CHECK(json.at("bytes") > 4 * 512);
  CHECK(json.at("source_bytes").is_number_unsigned());
  CHECK(json.at("skipped_count") == 0);
  CHECK(json.at("skipped") == Json::array());
  CHECK(json.at("seconds").is_number());
  CHECK(json.at("content_digest").get<std::string>().size() == 32);
  CHECK(result.err ==
        "shardmill: warning: class-sorted: shuffled readers will see few classes per batch; add "
        "--shuffle 1\n"
        "o ut/shard-{000000..000003}.tar\n"
        "next: shardmill verify raw 'o ut'\n");
  const CommandResult next = run("verify raw 'o ut' --json");
  CHECK(next.status == 0);
  CHECK(Json::parse(next.out).at("equal") == true);
  CHECK(run("inspect 'o ut/shard-{000000..000003}.tar' --list").out ==
        "a/n00\na/n01\nb/n00\nb/n01\n");
  check_failure(run("convert raw 'o ut' --to tar"), 2,
                "shardmill: o ut: the directory holds a dataset already; name a new one, or add "
                "--force to replace it");
  CHECK(run("convert raw 'o ut' --to lmdb --force --quiet").status == 0);
}

TEST_CASE("verify says what is damaged and fails", "[cli]") {
  const Fixture run;
  CHECK(run("convert raw out --to tar --quiet").status == 0);
  const CommandResult good = run("verify out");
  CHECK(good.status == 0);
  CHECK(good.out.find("undamaged: 4 samples") == 0);
  std::string bytes = read_text(run.folder / "out/shard-000000.tar");
  bytes[512 + 512 + 512 + 3] ^= 1;  // in the payload of a/n00.jpg
  write_text(run.folder / "out/shard-000000.tar", bytes);
  const CommandResult bad = run("verify out --json");
  CHECK(bad.status == 1);
  const Json json = Json::parse(bad.out);
  CHECK(json.at("damaged").at(0).at("key") == "a/n00");
  CHECK(json.at("damaged").at(0).at("shard") == "@/out/shard-000000.tar");
  CHECK(json.at("samples") == 4);
  const CommandResult text = run("verify out");
  CHECK(text.status == 1);
  CHECK(text.out.find("@/out/shard-000000.tar: sample \"a/n00\": ") == 0);
  const CommandResult unequal = run("verify raw out --json");
  CHECK(unequal.status == 1);
  CHECK(Json::parse(unequal.out).at("equal") == false);
  CHECK(Json::parse(unequal.out).at("other_damaged").at(0).at("key") == "a/n00");

  std::filesystem::create_directory(run.folder / "empty");
  const CommandResult empty = run("verify empty");
  CHECK(empty.status == 1);
  CHECK(empty.err.find("holds no samples") != std::string::npos);
}

TEST_CASE("A reader of stdout that goes away is no failure", "[cli]") {
  TemporaryFolder folder;
  for (int i = 0; i < 3000; ++i) {
    write_text(folder / "raw/c" / (std::string(60, 'x') + std::to_string(i) + ".jpg"), "1");
  }
  const CommandResult result =
      shardmill_in(folder.path(), "inspect raw --list > >(head -1); wait; echo status $?");
  CHECK(result.err == "");
  CHECK(result.out.find("status 0") != std::string::npos);
  shardmill_in(folder.path(), "inspect raw --extract all > >(head -1); wait");
  CHECK(std::distance(std::filesystem::directory_iterator(folder / "all/c"), {}) == 6000);
  const CommandResult full = shardmill_in(folder.path(), "inspect raw --list > /dev/full");
  CHECK(full.status == 1);
  CHECK(full.err ==
        "shardmill: stdout: cannot write: no space left on device; free space and run "
        "again\n");
}

TEST_CASE("Interrupting leaves what can be resumed and exits with 130", "[cli]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 4, 200);
  for (const char* signal : {"INT", "TERM"}) {
    for (const char* jobs : {"1", "2"}) {
      // Kills itself as soon as the first shard appears; a run that was quicker is as good.
      const CommandResult result = run_command(
          "cd '" + folder.path().string() +
          "' && { '" SHARDMILL_BINARY_DIR
          "/bin/shardmill' convert raw out --to lmdb --shard-count 1 --quiet --jobs " +
          jobs + " & pid=$!; until [ -e out/shard-000000.lmdb ]; do sleep 0.005; done; kill -" +
          signal + " $pid; wait $pid; }");
      INFO(result.err);
      REQUIRE(result.status == 130);
      CHECK(result.err.find("shardmill: interrupted; finished shards are kept: run again with "
                            "--resume to go on\n") != std::string::npos);
      CHECK(only_resumable(folder / "out"));
      fs::remove_all(folder / "out");
    }
  }
}

TEST_CASE("Names that are not UTF-8 are escaped", "[cli]") {
  TemporaryFolder folder;
  write_text(folder / "raw/c" / "caf\xE9.jpg", "x");
  CHECK(shardmill_in(folder.path(), "inspect raw --list").out == "c/caf\\xe9\n");
  CHECK(shardmill_in(folder.path(), "convert raw out --to hdf5 --quiet").status == 0);
  CHECK(shardmill_in(folder.path(), "verify raw out").status == 0);
  const CommandResult result = shardmill_in(folder.path(), "inspect out --sample 0 --json");
  CHECK(Json::parse(result.out).at("key") == "c/caf\\xe9");
}

TEST_CASE("Help has an example, and the program starts quickly without LibTorch", "[cli]") {
  TemporaryFolder folder;
  for (const std::string verb : {"convert", "inspect", "verify"}) {
    const CommandResult help = shardmill_in(folder.path(), verb + " --help");
    CHECK(help.status == 0);
    CHECK(help.out.find("Example:\n  shardmill " + verb) != std::string::npos);
    CHECK(help.err == "");
  }
  CHECK(shardmill_in(folder.path(), "--version").out.find("shardmill ") == 0);
  CHECK(run_command("ldd '" SHARDMILL_BINARY_DIR
                    "/bin/shardmill' | grep -ciE 'libtorch|libc10|libcud'")
            .out == "0\n");
}

TEST_CASE("Case 50: converting and loading work under a small limit of address space", "[cli]") {
#ifdef __SANITIZE_ADDRESS__
  return skip("AddressSanitizer needs terabytes of address space");
#endif
  const Fixture run;
  for (const std::string format : {"tar", "lmdb", "hdf5"}) {
    const CommandResult result =
        run_command("cd '" + run.folder.path().string() +
                    "' && export SHARDMILL='" SHARDMILL_BINARY_DIR
                    "/bin/shardmill' && ulimit -v 4000000 && \"$SHARDMILL\" convert raw " +
                    format + " --to " + format + " --quiet && \"$SHARDMILL\" verify raw " + format +
                    " && \"$SHARDMILL\" batches " + format + " --workers 2 --batch-size 2");
    INFO(result.err);
    CHECK(result.status == 0);
    CHECK(result.out.find("4 shown once") != std::string::npos);
    for (const auto& file : fs::recursive_directory_iterator(run.folder / format)) {
      if (file.is_regular_file()) CHECK(file.file_size() < 1'000'000);  // no holes either
    }
  }
}

TEST_CASE("Case 11: shards on a read-only mount are read, and nothing is tried there", "[cli]") {
  if (run_command("unshare -m true").status != 0) return skip("cannot make a mount namespace");
  const Fixture run;
  for (const std::string format : {"tar", "lmdb", "hdf5"}) {
    REQUIRE(run("convert raw " + format + " --to " + format + " --quiet").status == 0);
    const CommandResult result = run_command(
        "unshare -m sh -c 'cd \"" + run.folder.path().string() + "\" && mount --bind " + format +
        " " + format + " && mount -o remount,ro,bind " + format + " && cd . && ! touch " + format +
        "/x 2>/dev/null && " SHARDMILL_BINARY_DIR "/bin/shardmill verify " + format +
        " && " SHARDMILL_BINARY_DIR "/bin/shardmill batches " + format + " --workers 2'");
    INFO(result.err);
    CHECK(result.status == 0);
    CHECK(result.out.find("4 shown once") != std::string::npos);
  }
}
