// SPDX-License-Identifier: Apache-2.0
// The example training program, from generated images.
#include <cstdlib>
#include <sstream>

#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill::test;

namespace {

// The lines that must not depend on how fast the data came.
std::string losses(const std::string& output) {
  std::istringstream in(output);
  std::string kept;
  for (std::string line; std::getline(in, line);) {
    if (line.find(" loss ") != std::string::npos) kept += line + "\n";
  }
  return kept;
}

double last_accuracy(const std::string& output) {
  const std::size_t at = output.rfind("accuracy ");
  REQUIRE(at != std::string::npos);
  return std::strtod(output.c_str() + at + 9, nullptr);
}

}  // namespace

TEST_CASE("Training learns, and alike for every number of workers", "[examples]") {
  TemporaryFolder folder;
  const std::string photos = (folder / "photos").string();
  REQUIRE(run_command(MAKE_PHOTOS " '" + photos + "' --count 240 --classes 3").status == 0);
  std::string expected;
  for (const char* workers : {"0", "1", "4"}) {
    const CommandResult trained =
        run_command(TRAIN " '" + photos + "' --epochs 3 --batch-size 16 --num-workers " + workers);
    INFO(trained.out << trained.err);
    REQUIRE(trained.status == 0);
    CHECK(last_accuracy(trained.out) > 0.7);  // chance is 0.33
    if (expected.empty()) expected = losses(trained.out);
    CHECK(losses(trained.out) == expected);
  }
  CHECK(!expected.empty());
}

TEST_CASE("Wrong use of the training program is said in one line", "[examples]") {
  CHECK(run_command(TRAIN).status == 2);
  CHECK(run_command(TRAIN " x --nonsense=1").status == 2);
  const CommandResult absent = run_command(TRAIN " /absent");
  CHECK(absent.status == 1);
  CHECK_THAT(absent.err, Catch::Contains("/absent") && Catch::Contains("no such file"));
}
