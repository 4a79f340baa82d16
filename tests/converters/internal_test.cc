// SPDX-License-Identifier: Apache-2.0
// The parts that conversions are made of.
#include <shardmill/formats/digest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <numeric>

#include "converters/internal/field_scan.h"
#include "converters/internal/sum_file.h"
#include "converters/internal/task_pool.h"
#include "tests/converters/data.h"
#include "tests/support/catch.h"

using namespace shardmill;
using namespace shardmill::internal;
using namespace shardmill::test;

TEST_CASE("A field scan tells class numbers and arrays from bytes", "[scan]") {
  const auto kind = [](const std::string& name, const std::vector<std::string>& values) {
    FieldScan scan;
    for (const std::string& value : values) {
      Sample sample("k");
      sample.add(name, value);
      scan.add(sample.view());
    }
    return scan.fields().at(0).kind;
  };
  CHECK(kind("cls", {"0", "7", "-1", "9223372036854775807"}) == FieldKind::kClass);
  CHECK(kind("cls", {"0", "07"}) == FieldKind::kBytes);
  CHECK(kind("cls", {"9223372036854775808"}) == FieldKind::kBytes);
  CHECK(kind("cls", {"", "1"}) == FieldKind::kBytes);
  CHECK(kind("cls", {"1\n"}) == FieldKind::kBytes);
  CHECK(kind("id", {"1"}) == FieldKind::kBytes);
  const std::string array = npy_header({DType::kUInt8, {2}}) + "ab";
  CHECK(kind("npy", {array, array}) == FieldKind::kArray);
  CHECK(kind("pos.npy", {array}) == FieldKind::kArray);
  CHECK(kind("bin", {array}) == FieldKind::kBytes);
  CHECK(kind("npy", {array, npy_header({DType::kUInt8, {3}}) + "abc"}) == FieldKind::kBytes);
  CHECK(kind("npy", {array + "behind"}) == FieldKind::kBytes);
  CHECK(kind("npy", {"damaged"}) == FieldKind::kBytes);
}

TEST_CASE("Class-sorted is what has few changes of class", "[scan]") {
  const auto sorted = [](const std::string& classes) {
    FieldScan scan;
    for (const char c : classes) {
      Sample sample("k");
      sample.add("cls", std::string(1, c));
      scan.add(sample.view());
    }
    return scan.class_sorted();
  };
  CHECK(sorted("00000000001111111111"));
  CHECK(sorted("001122334455"));
  CHECK(sorted("000000011111000002222222"));
  CHECK_FALSE(sorted("01010110010110100101"));
  CHECK_FALSE(sorted("000000000000"));
  CHECK_FALSE(sorted("012"));
  CHECK_FALSE(sorted(""));
}

TEST_CASE("Lists of sample hashes keep what they hold and notice damage", "[sums]") {
  TemporaryFolder folder;
  const std::vector<std::uint64_t> sums = {1, 0xFEDCBA9876543210, 3};
  save_sums(folder / "x.sum", sums);
  CHECK(load_sums(folder / "x.sum") == sums);
  CHECK(load_sums(folder / "none.sum") == std::nullopt);
  const std::string good = read_text(folder / "x.sum");
  CHECK(good.size() == 24 + 8 * 3);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 1;
    write_text(folder / "x.sum", bad);
    CHECK_THROWS_AS(load_sums(folder / "x.sum"), Error);
    write_text(folder / "x.sum", good.substr(0, i));
    CHECK_THROWS_AS(load_sums(folder / "x.sum"), Error);
  }
  CHECK(sum_path("d", "a-000001.lmdb") == "d/a-000001.sum");
  CHECK(sum_path("d", ".") == "d/shard-000000.sum");
}

TEST_CASE("The hash of a sample is what docs/formats/manifest.md says", "[digest]") {
  const auto number = [](std::uint64_t value) {
    return std::string(reinterpret_cast<const char*>(&value), 8);
  };
  const auto text = [&](const std::string& value) { return number(value.size()) + value; };
  const auto xxh3 = [](const std::string& bytes) {
    const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
    return Digest{hash.high64, hash.low64};
  };
  const ArrayType type{DType::kUInt16, {2, 1}};
  Sample sample("key");
  sample.add("x.npy", npy_header(type) + "abcd");
  sample.add("jpg", "bytes");
  sample.add("cls", "007");
  sample.add("x.a", "");
  const std::string expected = text("key") + text("cls") + '\0' + text("7") + text("jpg") + '\0' +
                               text("bytes") + text("x") + '\1' + text("uint16") + number(2) +
                               number(2) + number(1) + "abcd" + text("x.a") + '\0' + text("");
  SampleHasher hasher;
  CHECK(hasher.hash(sample.view()) == xxh3(expected));
  // The same as numbers, under the name that a format with arrays gives it.
  Sample numbers("key");
  numbers.add("x", as_bytes("abcd"), &type);
  numbers.add("x.a", "");
  numbers.add("cls", "7");
  numbers.add("jpg", "bytes");
  CHECK(hasher.hash(numbers.view()) == xxh3(expected));
}

TEST_CASE("A pool returns results by number of task", "[pool]") {
  for (const int jobs : {1, 2, 7}) {
    const auto results =
        run_tasks({20, jobs, "testing", 20, 0},
                  []() -> Task {
                    return [](std::size_t task, TaskContext& context) {
                      context.advance(1, 10);
                      return std::string(task * 10'000, 'x');  // more than a pipe holds
                    };
                  },
                  {});
    REQUIRE(results.size() == 20);
    for (std::size_t i = 0; i < results.size(); ++i) CHECK(results[i].size() == i * 10'000);
  }
}

TEST_CASE("A pool throws the first error in the order of tasks", "[pool]") {
  for (const int jobs : {1, 2, 4}) {
    const ErrorInfo error = error_of([&] {
      run_tasks({16, jobs, "testing", 0, 0},
                []() -> Task {
                  return [](std::size_t task, TaskContext& context) -> std::string {
                    if (task == 5) usleep(30'000);  // later tasks fail first
                    for (int i = 0; i < 3; ++i) context.advance(0, 0);
                    if (task >= 5) {
                      throw Error(ErrorCode::kIo, "p", "task " + std::to_string(task), "c", "r");
                    }
                    return {};
                  };
                },
                {});
    });
    CHECK(error.code == ErrorCode::kIo);
    CHECK(error.place == "task 5");
    CHECK(error.path == "p");
    CHECK(error.remedy == "r");
  }
}

TEST_CASE("A pool reports a job process that is killed", "[pool]") {
  const ErrorInfo error = error_of([&] {
    run_tasks({4, 2, "testing", 0, 0},
              []() -> Task {
                return [](std::size_t task, TaskContext&) -> std::string {
                  if (task == 2) raise(SIGKILL);
                  return {};
                };
              },
              {});
  });
  CHECK(error.code == ErrorCode::kInternal);
  CHECK(error.cause.find("killed by signal 9") != std::string::npos);
  CHECK_FALSE(error.remedy.empty());
}

TEST_CASE("A pool whose caller fails ends its processes", "[pool]") {
  Observer observer;
  int calls = 0;
  observer.progress = [&](const Progress&) {
    if (++calls == 3) throw std::runtime_error("from the caller");
  };
  CHECK_THROWS_AS(run_tasks(
                      {4, 2, "testing", 0, 0},
                      []() -> Task {
                        return [](std::size_t, TaskContext& context) -> std::string {
                          for (;;) {
                            usleep(1000);
                            context.advance(1, 0);
                          }
                        };
                      },
                      observer),
                  std::runtime_error);
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);  // no child is left
}
