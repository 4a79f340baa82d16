// SPDX-License-Identifier: Apache-2.0
// What `shardmill bench` reports. How fast anything is decides no test.
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/converters/data.h"
#include "tests/support/catch.h"
#include "tests/tools/program.h"

using namespace shardmill;
using namespace shardmill::test;
using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::string kQuick = " --seconds 0.05 --repeats 2 --batch-size 8 --quiet";

// Photographs in class directories, and the same as shards; temporary files go to `tmp`.
struct Fixture {
  TemporaryFolder folder;

  Fixture() {
    fs::create_directory(folder / "tmp");
    const CommandResult made = run_command("'" SHARDMILL_BINARY_DIR "/bin/make_photos' '" +
                                           (folder / "raw").string() + "' --count 20 --classes 2");
    REQUIRE(made.status == 0);
    for (const std::string format : {"tar", "lmdb", "hdf5"}) {
      REQUIRE((*this)("convert raw " + format + " --to " + format + " --quiet").status == 0);
    }
  }
  CommandResult operator()(const std::string& arguments) const {
    return run_command("cd '" + folder.path().string() + "' && TMPDIR='" +
                       (folder / "tmp").string() + "' '" SHARDMILL_BINARY_DIR "/bin/shardmill' " +
                       arguments);
  }
};

std::set<std::string> keys(const Json& object) {
  std::set<std::string> names;
  for (const auto& [name, value] : object.items()) names.insert(name);
  return names;
}

void check_keys(const Json& report) {
  CHECK(keys(report) == std::set<std::string>{"machine", "ceiling", "datasets", "runs",
                                              "recommendation", "command", "version"});
  CHECK(keys(report["ceiling"]) == std::set<std::string>{"decode_samples_per_s_per_core",
                                                         "memcpy_gb_per_s", "disk_seq_mb_per_s",
                                                         "disk_random_iops"});
  for (const Json& dataset : report["datasets"]) {
    CHECK(keys(dataset) == std::set<std::string>{"path", "format", "stored_bytes", "files",
                                                 "convert_seconds", "content_digest"});
  }
  for (const Json& run : report["runs"]) {
    CHECK(keys(run) == std::set<std::string>{"dataset",
                                             "format",
                                             "workers",
                                             "cache",
                                             "decode",
                                             "shuffle",
                                             "step_ms",
                                             "samples_per_s",
                                             "mb_per_s",
                                             "first_batch_ms",
                                             "batch_ms_p50",
                                             "batch_ms_p99",
                                             "cpu_ms_per_sample",
                                             "io_bytes_per_sample",
                                             "io_calls_per_sample",
                                             "pss_mb",
                                             "wait_fraction",
                                             "percent_of_ceiling",
                                             "bound_by",
                                             "spread"});
  }
}

void check_figures(const Json& report) {
  CHECK(report["ceiling"]["memcpy_gb_per_s"].get<double>() > 0);
  CHECK(report["machine"]["cpus"].get<int>() >= 1);
  const std::set<std::string> verdicts = {"decode", "io", "memory", "loader", "consumer"};
  for (const Json& run : report["runs"]) {
    INFO(run.dump());
    CHECK(run["samples_per_s"].get<double>() > 0);
    CHECK(run["mb_per_s"].get<double>() > 0);
    CHECK(run["first_batch_ms"].get<double>() > 0);
    CHECK(run["batch_ms_p99"].get<double>() >= run["batch_ms_p50"].get<double>());
    CHECK(run["percent_of_ceiling"].get<double>() > 0);
    CHECK(run["spread"].get<double>() >= 0);
    CHECK(run["wait_fraction"].get<double>() >= 0);
    CHECK(run["wait_fraction"].get<double>() <= 1);
    CHECK(verdicts.count(run["bound_by"]) == 1);
    CHECK(run["cache"] == "warm");
    CHECK(run["step_ms"] == 0);
  }
}

// The combinations of dataset and workers that a report has.
std::multiset<std::string> combinations(const Json& report) {
  std::multiset<std::string> all;
  for (const Json& run : report["runs"]) {
    all.insert(run["dataset"].get<std::string>() + " " + run["workers"].dump());
  }
  return all;
}

int processes_in(pid_t session) {
  int count = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (getsid(static_cast<pid_t>(std::stol(name))) == session) ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("bench reports every dataset with every number of workers", "[cli][bench]") {
  const Fixture run;
  const CommandResult result =
      run("bench raw tar lmdb --workers 2,0,1 --decode 32x24 --shuffle full --json" + kQuick);
  INFO(result.err);
  REQUIRE(result.status == 0);
  const Json report = Json::parse(result.out);
  check_keys(report);
  check_figures(report);
  CHECK(combinations(report) == std::multiset<std::string>{"raw 0", "raw 1", "raw 2", "tar 0",
                                                           "tar 1", "tar 2", "lmdb 0", "lmdb 1",
                                                           "lmdb 2"});
  CHECK(report["ceiling"]["decode_samples_per_s_per_core"].get<double>() > 0);
  CHECK(report["datasets"][0]["files"] == 20);
  std::set<std::string> digests;
  for (const Json& dataset : report["datasets"]) {
    digests.insert(dataset["content_digest"].get<std::string>());
    CHECK(dataset["convert_seconds"].is_null());
  }
  CHECK(digests.size() == 1);
  for (const Json& one : report["runs"]) {
    CHECK(one["decode"] == "32x24");
    CHECK(one["shuffle"] == "full");
  }
  CHECK(fs::is_empty(run.folder / "tmp"));
}

TEST_CASE("bench loads stored bytes and arrays without decoding", "[cli][bench]") {
  const Fixture run;
  REQUIRE(
      run("convert raw arrays --to hdf5 --image-format raw --image-size 16x16 --quiet").status ==
      0);
  const CommandResult bytes = run("bench tar --decode none --workers 0,2 --json" + kQuick);
  REQUIRE(bytes.status == 0);
  check_figures(Json::parse(bytes.out));
  // Nobody has to say that arrays are not decoded.
  const CommandResult arrays = run("bench arrays --workers 1 --json" + kQuick);
  REQUIRE(arrays.status == 0);
  const Json report = Json::parse(arrays.out);
  check_figures(report);
  CHECK(report["runs"][0]["decode"] == "none");
  CHECK(report["ceiling"]["decode_samples_per_s_per_core"].is_null());
  const CommandResult impossible = run("bench arrays --decode 32 --workers 1" + kQuick);
  CHECK(impossible.status == 2);
  CHECK(impossible.err ==
        "shardmill: arrays: has no image field that --decode 32 could decode; use --decode none\n");
}

TEST_CASE("bench refuses to compare datasets of unequal content", "[cli][bench]") {
  const Fixture run;
  REQUIRE(run("convert raw part --to tar --limit 10 --quiet").status == 0);
  const CommandResult refused = run("bench tar part --workers 0 --json" + kQuick);
  CHECK(refused.status == 2);
  CHECK(Json::parse(refused.out)["error"]["code"] == "invalid_argument");
  CHECK(refused.err ==
        "shardmill: part: holds other samples than tar (10 and 20 samples); compare datasets of "
        "equal content, or add --allow-different\n");
  // As many samples, but other ones: only the digest tells.
  REQUIRE(run("convert raw other --to tar --image-format raw --image-size 8x8 --quiet").status ==
          0);
  CHECK(run("bench tar other --workers 0" + kQuick).status == 2);
  const CommandResult allowed =
      run("bench tar part other --workers 0 --decode none --allow-different --json" + kQuick);
  REQUIRE(allowed.status == 0);
  CHECK(Json::parse(allowed.out)["runs"].size() == 3);
}

TEST_CASE("bench converts a raw folder, compares the formats and leaves nothing", "[cli][bench]") {
  const Fixture run;
  for (const std::string limit : {"", " --limit 12"}) {
    const CommandResult result =
        run("bench raw --formats tar,lmdb,hdf5 --workers 1 --json" + limit + kQuick);
    INFO(result.err);
    REQUIRE(result.status == 0);
    const Json report = Json::parse(result.out);
    check_keys(report);
    check_figures(report);
    CHECK(combinations(report) == std::multiset<std::string>{"raw 1", "tar 1", "lmdb 1", "hdf5 1"});
    CHECK(report["datasets"][0]["files"].get<int>() >= 12);
    for (const Json& dataset : report["datasets"]) {
      CHECK(dataset["content_digest"] == report["datasets"][0]["content_digest"]);
      CHECK(dataset["convert_seconds"].is_null() == (dataset["path"] == "raw"));
    }
    CHECK(fs::is_empty(run.folder / "tmp"));
  }
  fs::create_directory(run.folder / "work");
  write_text(run.folder / "work" / "mine.txt", "x");
  CHECK(run("bench raw --formats tar --workers 0 --work-dir work" + kQuick).status == 0);
  CHECK(std::distance(fs::directory_iterator(run.folder / "work"), {}) == 1);
}

TEST_CASE("Interrupting bench leaves no process and no file", "[cli][bench]") {
  const Fixture run;
  // A session of its own, so that whatever it leaves running can be counted.
  const CommandResult result = run_command(
      "cd '" + run.folder.path().string() + "' && export TMPDIR='" + (run.folder / "tmp").string() +
      "' && { setsid '" SHARDMILL_BINARY_DIR
      "/bin/shardmill' bench raw --formats tar --workers 2 --decode 32 --seconds 60 & pid=$!; "
      "until [ -n \"$(ls -A \"$TMPDIR\")\" ]; do sleep 0.01; done; sleep 0.3; kill -INT $pid; "
      "wait $pid; status=$?; echo $pid; exit $status; }");
  INFO(result.err);
  const auto session = static_cast<pid_t>(std::stol(result.out));
  for (int tries = 0; tries < 100 && processes_in(session) > 0; ++tries) usleep(50'000);
  CHECK(processes_in(session) == 0);
  CHECK(result.status == 130);
  CHECK(result.err.find("shardmill: interrupted\n") != std::string::npos);
  CHECK(fs::is_empty(run.folder / "tmp"));
}

TEST_CASE("bench prints a table for people, and its expected duration first", "[cli][bench]") {
  const Fixture run;
  const CommandResult result =
      run("bench tar --workers 1 --decode 32 --seconds 0.05 --repeats 1 --batch-size 8");
  REQUIRE(result.status == 0);
  CHECK(result.err.find("measuring 1 dataset with 1 number of workers, 1 run each: about ") == 0);
  CHECK(result.out.find("take tar (tar) with 1 worker: ") == 0);
  for (const char* word : {"on disk", "samples/s", "bound by", "ceilings: "}) {
    CHECK(result.out.find(word) != std::string::npos);
  }
}

TEST_CASE("Wrong use of bench is one line and exit code 2", "[cli][bench]") {
  const Fixture run;
  const std::vector<std::string> wrong = {
      "bench",
      "bench tar --workers 0,x",
      "bench tar --workers ''",
      "bench tar --workers -1",
      "bench tar --decode 0",
      "bench tar --decode 12x",
      "bench tar --shuffle random",
      "bench tar --seconds 0",
      "bench tar --repeats 0",
      "bench tar --formats zip",
      "bench tar lmdb --formats hdf5",
      "bench tar --batch-size 0",
  };
  for (const std::string& arguments : wrong) {
    const CommandResult result = run(arguments);
    INFO(arguments << ": " << result.err);
    CHECK(result.status == 2);
    CHECK(result.out == "");
    CHECK(result.err.find("shardmill: ") == 0);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  }
  const CommandResult absent = run("bench nix --workers 0");
  CHECK(absent.status == 1);
  CHECK(absent.err.find("shardmill: nix: no such file or directory") != std::string::npos);
}
