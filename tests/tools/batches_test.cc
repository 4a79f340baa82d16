// SPDX-License-Identifier: Apache-2.0
// `shardmill batches`: the handle for outside checks of order, resume and ranks.
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/converters/data.h"
#include "tests/support/catch.h"
#include "tests/tools/program.h"

using namespace shardmill;
using namespace shardmill::test;
using Json = nlohmann::json;

namespace {

struct Fixture {
  TemporaryFolder folder;
  Fixture() {
    make_classes(folder / "raw", 5, 21);  // 105 samples
    REQUIRE(run("convert raw data --to tar --quiet").status == 0);
  }
  CommandResult run(const std::string& arguments) const {
    return shardmill_in(folder.path(), arguments);
  }
  Json batches(const std::string& arguments) const {
    const CommandResult result = run("batches data --json " + arguments);
    INFO(result.err);
    REQUIRE(result.status == 0);
    return Json::parse(result.out);
  }
};

}  // namespace

TEST_CASE("batches tells samples, keys and digests, the same for any workers", "[batches]") {
  const Fixture fixture;
  const Json inline_run = fixture.batches("--workers 0 --shuffle full --batch-size 10");
  CHECK(fixture.batches("--workers 3 --shuffle full --batch-size 10") == inline_run);
  CHECK(fixture.batches("--workers 1 --shuffle full --batch-size 10 --seed 1") != inline_run);
  REQUIRE(inline_run["batches"].size() == 11);
  CHECK(inline_run["coverage"]["unique"] == 105);
  CHECK(inline_run["coverage"]["repeated"] == 0);
  CHECK(inline_run["coverage"]["missing"] == 0);
  std::set<std::string> keys;
  std::set<std::string> digests;
  for (const Json& batch : inline_run["batches"]) {
    CHECK(batch["keys"].size() == batch["samples"].size());
    for (const Json& key : batch["keys"]) keys.insert(key);
    digests.insert(batch["digest"]);
  }
  CHECK(keys.size() == 105);
  CHECK(digests.size() == 11);
  // A part of the epoch is the same part.
  const Json part =
      fixture.batches("--workers 2 --shuffle full --batch-size 10 --from 4 --count 3");
  REQUIRE(part["batches"].size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(part["batches"][i] == inline_run["batches"][4 + i]);
  CHECK(part["coverage"]["missing"] == 75);
}

TEST_CASE("batches --all-ranks shows that the ranks cover the epoch", "[batches]") {
  const Fixture fixture;
  const std::string ranks = "--workers 0 --all-ranks --world-size 4 --batch-size 8 --epoch 2 ";
  const Json pad = fixture.batches(ranks + "--shuffle block");
  CHECK(pad["coverage"] ==
        Json({{"unique", 105}, {"repeated", 0}, {"missing", 0}, {"padding", 3}}));
  CHECK(pad["batches"].size() == 16);
  CHECK(fixture.batches(ranks + "--uneven drop")["coverage"]["missing"] == 1);
  CHECK(fixture.batches(ranks + "--uneven exact")["coverage"] ==
        Json({{"unique", 105}, {"repeated", 0}, {"missing", 0}, {"padding", 0}}));
  const Json one = fixture.batches(
      "--workers 0 --rank 2 --world-size 4 --batch-size 8 --epoch 2 "
      "--shuffle block");
  REQUIRE(one["batches"].size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(one["batches"][i] == pad["batches"][8 + i]);
}

TEST_CASE("Real processes with a launcher's environment cover the epoch together", "[batches]") {
  const Fixture fixture;
  for (const std::string names : {"RANK WORLD_SIZE", "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE",
                                  "SLURM_PROCID SLURM_STEP_NUM_TASKS"}) {
    const std::string rank = names.substr(0, names.find(' '));
    const std::string size = names.substr(names.find(' ') + 1);
    // Four at once, as a launcher starts them, each with workers of its own.
    const CommandResult result =
        run_command("cd '" + fixture.folder.path().string() + "' && for r in 0 1 2 3; do env " +
                    rank + "=$r " + size +
                    "=4 LOCAL_WORLD_SIZE=4 '" SHARDMILL_BINARY_DIR
                    "/bin/shardmill' batches data --json --shuffle full --epoch 3 --batch-size 8 "
                    "--uneven exact "
                    "> $r.json & done; wait; cat 0.json 1.json 2.json 3.json");
    REQUIRE(result.status == 0);
    std::multiset<std::uint64_t> samples;
    std::istringstream lines(result.out);
    int ranks = 0;
    for (std::string line; std::getline(lines, line); ++ranks) {
      const Json json = Json::parse(line);
      CHECK(json["world_size"] == 4);
      for (const Json& batch : json["batches"]) {
        CHECK(batch["rank"] == ranks);
        for (const Json& sample : batch["samples"]) samples.insert(sample.get<std::uint64_t>());
      }
    }
    CHECK(ranks == 4);
    CHECK(samples.size() == 105);
    CHECK(std::set<std::uint64_t>(samples.begin(), samples.end()).size() == 105);
  }
}

TEST_CASE("batches lists keys for people, and refuses wrong usage", "[batches]") {
  const Fixture fixture;
  const CommandResult listed =
      fixture.run("batches data --workers 0 --batch-size 2 --count 1 --keys --digest");
  CHECK(listed.status == 0);
  CHECK(listed.out.find("batch 0: 2 samples ") == 0);
  CHECK(listed.out.find("\n  0\t") != std::string::npos);
  CHECK(listed.out.find("105: 2 shown once, 0 repeats, 103 not shown") != std::string::npos);
  CHECK(fixture.run("batches data --rank 4 --world-size 4").status != 0);
  CHECK(fixture.run("batches data --world-size 4").status == 2);
  CHECK(fixture.run("batches data --rank 1").status == 2);
  const CommandResult shuffled = fixture.run("batches data --shuffle some");
  CHECK(shuffled.status == 2);
  CHECK(shuffled.err ==
        "shardmill: --shuffle: \"some\" is not one of none|full|block; see shardmill "
        "batches --help\n");
  CHECK(fixture.run("batches data --workers some").status != 0);
  CHECK(fixture.run("batches data --decode none").status != 0);
  CHECK(fixture.run("batches data --batch-size 0").status == 2);
}
