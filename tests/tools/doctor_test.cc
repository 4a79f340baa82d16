// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill::test;
using Json = nlohmann::json;

namespace {

const std::string kDoctor = "'" SHARDMILL_BINARY_DIR "/bin/shardmill' doctor --json";

std::map<std::string, Json> checks_of(const Json& report) {
  std::map<std::string, Json> checks;
  for (const Json& check : report.at("checks")) checks[check.at("name")] = check;
  return checks;
}

}  // namespace

TEST_CASE("doctor warns of few open files and many OpenMP threads", "[tools][doctor]") {
  const CommandResult result =
      run_command("ulimit -n 200; OMP_NUM_THREADS=100000 " + kDoctor + " /tmp");
  REQUIRE(result.status == 0);
  auto checks = checks_of(Json::parse(result.out));
  CHECK(checks.at("open_files").at("state") == "warning");
  CHECK(checks.at("openmp").at("state") == "warning");
  CHECK(checks.at("openmp").at("advice") != "");
  CHECK(checks.contains("disk"));
}

TEST_CASE("doctor counts the CPUs it may use, not the machine's", "[tools][doctor]") {
  const CommandResult result = run_command(
      "OMP_NUM_THREADS=1 taskset -c \"$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')\" " + kDoctor);
  REQUIRE(result.status == 0);
  const Json report = Json::parse(result.out);
  auto checks = checks_of(report);
  CHECK(checks.at("cpus").at("found").get<std::string>().rfind("1 usable of ", 0) == 0);
  CHECK(report.at("recommended").at("num_workers") == 1);
  CHECK(checks.at("openmp").at("state") == "ok");
}

TEST_CASE("doctor names a dataset that is not there", "[tools][doctor]") {
  const CommandResult result = run_command(kDoctor + " /no/such/place 2>/dev/null");
  CHECK(result.status == 1);
  CHECK(Json::parse(result.out).at("error").at("path") == "/no/such/place");
}
