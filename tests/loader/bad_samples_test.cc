// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>
#include <shardmill/loader/loader.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tests/loader/loader_test_data.h"
#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

// A shard in which the class of each sample of `bad` is no number; its `bin` is its number.
void write_with_bad(const std::filesystem::path& path, std::size_t count,
                    const std::set<std::size_t>& bad, const std::string& format = "tar") {
  const auto writer =
      find_format(format).create(path, {.fields = {{.name = "bin"}, {.name = "num"}}});
  for (std::size_t number = 0; number < count; ++number) {
    char key[32];
    std::snprintf(key, sizeof key, "s%04zu", number);
    Sample sample(key);
    sample.add("num", bad.contains(number) ? "broken" : std::to_string(number));
    sample.add("bin", std::string(number % 5, static_cast<char>('a' + number % 26)));
    writer->write(sample.view());
  }
  writer->close();
}

LoaderOptions options(int workers, BadSamples policy) {
  LoaderOptions options;
  options.outputs = {bytes_output("data", "bin"), class_output("label", "num")};
  options.batch_size = 10;
  options.num_workers = workers;
  options.seed = 3;
  options.bad_samples = policy;
  return options;
}

std::vector<nlohmann::json> lines_of(const std::filesystem::path& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(nlohmann::json::parse(line));
    std::string cause = lines.back()["cause"];  // which worker met it is not the same every time
    lines.back()["cause"] = cause.substr(0, cause.find(" (worker "));
  }
  return lines;
}

// Every row belongs to the sample it claims to be.
void check_rows(const Batch& batch) {
  const auto labels = batch["label"].as<std::int64_t>();
  REQUIRE(labels.size() == batch.size());
  for (std::size_t row = 0; row < batch.size(); ++row) {
    const std::uint64_t number = batch.samples()[row];
    REQUIRE(labels[row] == static_cast<std::int64_t>(number));
    const auto value = batch["data"].value(row);
    REQUIRE(value.size() == number % 5);
    for (const std::byte byte : value) {
      REQUIRE(static_cast<char>(byte) == static_cast<char>('a' + number % 26));
    }
  }
}

}  // namespace

TEST_CASE("skip: the batch is shorter, nobody moves, the sample is logged", "[bad]") {
  for (const char* format : {"tar", "lmdb", "hdf5", "folder"}) {
    TemporaryFolder folder;
    const auto path = folder / ("data" + std::string(find_format(format).suffix()));
    write_with_bad(path, 100, {37}, format);
    for (const int workers : {0, 4}) {
      LoaderOptions with = options(workers, BadSamples::kSkip);
      with.bad_sample_log = (folder / ("log" + std::to_string(workers))).string();
      Loader loader(path.string(), with);
      std::set<std::uint64_t> seen;
      for (const Batch& batch : loader.epoch(0)) {
        CHECK(batch.size() == (batch.index() == 3 ? 9 : 10));
        check_rows(batch);
        for (const std::uint64_t sample : batch.samples()) CHECK(sample / 10 == batch.index());
        seen.insert(batch.samples().begin(), batch.samples().end());
      }
      CHECK(seen.size() == 99);
      CHECK_FALSE(seen.contains(37));
      CHECK(loader.stats().bad_samples == 1);
      const auto lines = lines_of(with.bad_sample_log);
      REQUIRE(lines.size() == 1);
      CHECK(lines[0]["sample"] == 37);
      CHECK(lines[0]["position"] == 37);
      CHECK(lines[0]["epoch"] == 0);
      CHECK(lines[0]["key"] == "s0037");
      CHECK(lines[0]["field"] == "num");
      CHECK(lines[0]["action"] == "skipped");
      CHECK(lines[0]["cause"].get<std::string>().find("broken") != std::string::npos);
      CHECK(lines[0]["shard"].get<std::string>().find(path.filename().string()) !=
            std::string::npos);
    }
  }
}

TEST_CASE("replace: batches keep their size and are the same for any workers", "[bad]") {
  TemporaryFolder folder;
  std::set<std::size_t> bad;
  for (std::size_t number = 0; number < 200; number += 4) bad.insert(number + number / 4 % 4);
  write_with_bad(folder / "data.tar", 200, bad);
  std::vector<std::string> expected;
  std::vector<nlohmann::json> expected_log;
  for (const int workers : {0, 1, 4}) {
    LoaderOptions with = options(workers, BadSamples::kReplace);
    with.shuffle = Shuffle::kFull;
    with.max_bad_fraction = 1;
    with.batch_size = 8;
    with.bad_sample_log = (folder / ("log" + std::to_string(workers))).string();
    Loader loader((folder / "data.tar").string(), with);
    std::vector<std::string> batches;
    std::set<std::uint64_t> seen;
    for (const Batch& batch : loader.epoch(1)) {
      REQUIRE(batch.size() == 8);
      check_rows(batch);
      for (std::size_t row = 0; row < batch.size(); ++row) {
        seen.insert(batch.samples()[row]);
        const Batch one = loader.replay(1, batch.positions()[row]);
        REQUIRE(one.samples()[0] == batch.samples()[row]);
      }
      batches.push_back(fingerprint(batch));
    }
    REQUIRE(batches.size() == 25);
    for (std::size_t number = 0; number < 200; ++number) {
      REQUIRE(seen.contains(number) == !bad.contains(number));
    }
    // Each bad sample that was meant, and each bad substitute, has its own line and cause.
    const auto log = lines_of(with.bad_sample_log);
    CHECK(log.size() >= 50);
    std::set<std::uint64_t> logged;
    for (const auto& line : log) {
      CHECK(line["action"] == "replaced");
      CHECK(line["field"] == "num");
      CHECK(bad.contains(line["sample"].get<std::size_t>()));
      logged.insert(line["sample"].get<std::uint64_t>());
    }
    CHECK(logged.size() == 50);
    if (expected.empty()) {
      expected = batches;
      expected_log = log;
    }
    CHECK(batches == expected);
    CHECK(log == expected_log);
  }
}

TEST_CASE("Too many bad samples end the epoch, at the same place for any workers", "[bad]") {
  TemporaryFolder folder;
  write_with_bad(folder / "data.tar", 100, {5, 27, 28, 61});
  const auto delivered = [&](int workers, std::uint64_t count, double fraction) {
    LoaderOptions with = options(workers, BadSamples::kSkip);
    with.max_bad_samples = count;
    with.max_bad_fraction = fraction;
    Loader loader((folder / "data.tar").string(), with);
    int batches = 0;
    std::string message;
    try {
      for (const Batch& batch : loader.epoch(0)) batches += batch ? 1 : 0;
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kResourceExhausted);
      message = error.what();
    }
    return std::pair(batches, message);
  };
  for (const int workers : {0, 3}) {
    CHECK(delivered(workers, 4, 1).first == 10);
    CHECK(delivered(workers, 1000, 0.031).first == 10);  // rounded up
    const auto [batches, message] = delivered(workers, 2, 1);
    CHECK(batches == 2);
    CHECK_THAT(message, Catch::Contains("3 in this epoch, 2 are allowed") &&
                            Catch::Contains("s0028") && Catch::Contains("broken"));
    CHECK(delivered(workers, 1000, 0.03).first == 6);
    CHECK(delivered(workers, 0, 1).first == 0);
  }
}

TEST_CASE("A dataset of nothing but bad samples is an error, not a loop", "[bad]") {
  TemporaryFolder folder;
  std::set<std::size_t> all;
  for (std::size_t number = 0; number < 100; ++number) all.insert(number);
  write_with_bad(folder / "data.tar", 100, all);
  for (const BadSamples policy : {BadSamples::kFail, BadSamples::kSkip, BadSamples::kReplace}) {
    for (const int workers : {0, 4}) {
      LoaderOptions with = options(workers, policy);
      Loader loader((folder / "data.tar").string(), with);
      Batch batch;
      CHECK_THROWS_AS(loader.next(batch), Error);
      with.max_bad_fraction = 1;
      Loader generous((folder / "data.tar").string(), with);
      if (policy == BadSamples::kSkip) {
        CHECK_FALSE(generous.next(batch));
        CHECK(generous.stats().bad_samples == 100);
      } else {
        CHECK_THROWS_AS(generous.next(batch), Error);
      }
    }
  }
}

TEST_CASE("A sample that kills or hangs follows the policy", "[bad][processes]") {
  TemporaryFolder folder;
  write_with_bad(folder / "data.tar", 60, {});
  for (const bool hang : {false, true}) {
    for (const BadSamples policy : {BadSamples::kSkip, BadSamples::kReplace}) {
      LoaderOptions with = options(2, policy);
      with.outputs.push_back(
          computed_output("deadly", {DType::kUInt8, {}}, [hang](const RowContext& context) {
            context.row[0] = std::byte{1};
            if (context.sample.key != "s0042") return;
            if (hang) std::this_thread::sleep_for(std::chrono::seconds(60));
            raise(SIGSEGV);
          }));
      with.max_worker_restarts = 1;
      with.prefetch = 2;  // the next epoch's turn of that sample does not come
      with.sample_timeout_ms = hang ? 300 : 0;
      with.max_bad_fraction = 1;
      with.bad_sample_log = (folder / "log").string();
      std::filesystem::remove(with.bad_sample_log);
      Loader loader((folder / "data.tar").string(), with);
      std::set<std::uint64_t> seen;
      std::size_t rows = 0;
      for (const Batch& batch : loader.epoch(0)) {
        check_rows(batch);
        rows += batch.size();
        seen.insert(batch.samples().begin(), batch.samples().end());
      }
      CHECK(rows == (policy == BadSamples::kSkip ? 59 : 60));
      CHECK_FALSE(seen.contains(42));
      CHECK(seen.size() == 59);
      CHECK(loader.stats().deaths == (hang ? 1 : 2));
      const auto lines = lines_of(with.bad_sample_log);
      REQUIRE(lines.size() == 1);
      CHECK(lines[0]["sample"] == 42);
      CHECK(lines[0]["cause"].get<std::string>().find(hang ? "sample_timeout_ms" : "signal 11") !=
            std::string::npos);
    }
  }
}

TEST_CASE("Policies and ranks: replace keeps the ranks in step", "[bad][ranks]") {
  TemporaryFolder folder;
  write_with_bad(folder / "data.tar", 101, {0, 8, 40, 99, 100});
  std::set<std::uint64_t> seen;
  for (int rank = 0; rank < 3; ++rank) {
    LoaderOptions with = options(2, BadSamples::kReplace);
    with.rank = rank;
    with.world_size = 3;
    with.max_bad_fraction = 0.2;
    Loader loader((folder / "data.tar").string(), with);
    std::vector<std::size_t> sizes;
    for (const Batch& batch : loader.epoch(0)) {
      check_rows(batch);
      sizes.push_back(batch.size());
      seen.insert(batch.samples().begin(), batch.samples().end());
    }
    CHECK(sizes == std::vector<std::size_t>{10, 10, 10, 4});
  }
  CHECK(seen.size() == 96);
}
