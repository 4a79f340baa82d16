// SPDX-License-Identifier: Apache-2.0
// Faults that people met with loaders, each with the outcome that ours promises; the numbers are
// those of the collection that docs/loader.md refers to.
#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>
#include <shardmill/loader/loader.h>
#include <shardmill/loader/system/cpus.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <set>
#include <thread>

#include "tests/loader/loader_test_data.h"
#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill;
using namespace shardmill::test;
using namespace std::chrono_literals;

namespace {

// `shards` tar shards of `each` samples, called s0.tar …; returns the pattern.
std::string write_shards(const TemporaryFolder& folder, const std::vector<std::size_t>& sizes) {
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    write_samples(folder / ("s" + std::to_string(s) + ".tar"), sizes[s]);
  }
  return (folder / ("s{0.." + std::to_string(sizes.size() - 1) + "}.tar")).string();
}

LoaderOptions options(int workers, std::size_t batch_size) {
  LoaderOptions options;
  options.outputs = {class_output()};
  options.batch_size = batch_size;
  options.num_workers = workers;
  options.rank = 0;
  options.world_size = 1;
  options.seed = 1;
  return options;
}

Output sleeping_output(const std::function<std::chrono::milliseconds(std::string_view)>& time) {
  return computed_output("slept", {DType::kUInt8, {}}, [time](const RowContext& context) {
    std::this_thread::sleep_for(time(context.sample.key));
    context.row[0] = std::byte{1};
  });
}

// Runs `child` in a process of its own and group; returns what waitpid() says.
int in_child(const std::function<void()>& child,
             const std::function<void(pid_t)>& meanwhile = nullptr) {
  const pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    try {
      child();
      _exit(0);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(99);
    }
  }
  if (meanwhile) meanwhile(pid);
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

bool group_is_empty(pid_t group) {
  const auto end = std::chrono::steady_clock::now() + 5s;
  while (kill(-group, 0) == 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(10ms);
  }
  return kill(-group, 0) != 0;
}

}  // namespace

TEST_CASE("Case 10: batches per epoch do not depend on workers", "[cases]") {
  TemporaryFolder folder;
  const std::string path = write_shards(folder, {2, 2, 2, 2, 2});
  for (const int workers : {0, 1, 3, 4, 8}) {
    for (const bool drop_last : {false, true}) {
      LoaderOptions with = options(workers, 4);
      with.drop_last = drop_last;
      Loader loader(path, with);
      std::vector<std::size_t> sizes;
      std::set<std::uint64_t> seen;
      for (const Batch& batch : loader.epoch(0)) {
        sizes.push_back(batch.size());
        seen.insert(batch.samples().begin(), batch.samples().end());
      }
      CHECK(sizes ==
            (drop_last ? std::vector<std::size_t>{4, 4} : std::vector<std::size_t>{4, 4, 2}));
      CHECK(seen.size() == (drop_last ? 8 : 10));
      CHECK(loader.batches_per_epoch() == sizes.size());
    }
  }
}

TEST_CASE("Case 13: affinity and control group's quota bound the workers", "[cases]") {
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK(usable_cpus() == 1);
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 10);
  CHECK(Loader((folder / "data.tar").string(), options(kAuto, 4)).options().num_workers == 1);
  sched_setaffinity(0, sizeof before, &before);

  // A quota needs a group of our own: root, and version 1 or 2 mounted where they usually are.
  const std::filesystem::path v1 = "/sys/fs/cgroup/cpu/shardmill-test";
  const std::filesystem::path v2 = "/sys/fs/cgroup/shardmill-test";
  std::error_code error;
  const bool first_version = std::filesystem::exists("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", error);
  const std::filesystem::path group = first_version ? v1 : v2;
  if (!std::filesystem::create_directory(group, error)) {
    std::puts("no control group can be made: the quota is not tested");
    return;
  }
  std::ofstream(group / (first_version ? "cpu.cfs_quota_us" : "cpu.max"))
      << (first_version ? "50000" : "50000 100000");
  const int status = in_child([&] {
    std::ofstream(group / "cgroup.procs") << getpid() << std::flush;
    if (usable_cpus() != 1) throw std::runtime_error("the quota is not seen");
  });
  rmdir(group.c_str());
  CHECK(status == 0);
}

TEST_CASE("Case 19: fewer shards than workers or ranks, and an empty shard", "[cases]") {
  TemporaryFolder folder;
  const std::string path = write_shards(folder, {5, 0, 5});
  {
    LoaderOptions with = options(8, 1);
    with.outputs.push_back(sleeping_output([](std::string_view) { return 20ms; }));
    Loader loader(path, with);
    std::multiset<std::uint64_t> seen;
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      for (const Batch& batch : loader.epoch(epoch)) seen.insert(batch.samples()[0]);
    }
    CHECK(seen.size() == 30);
    for (std::uint64_t sample = 0; sample < 10; ++sample) CHECK(seen.count(sample) == 3);
    std::size_t busy = 0;  // work is split by sample, so two shards keep more than two workers busy
    for (const WorkerStats& worker : loader.stats().workers) busy += worker.samples > 0 ? 1 : 0;
    CHECK(busy > 2);
  }
  std::multiset<std::uint64_t> seen;
  for (int rank = 0; rank < 4; ++rank) {
    LoaderOptions with = options(2, 2);
    with.rank = rank;
    with.world_size = 4;
    Loader loader(path, with);
    std::size_t rows = 0;
    for (const Batch& batch : loader.epoch(0)) {
      rows += batch.size();
      for (std::size_t row = 0; row < batch.size(); ++row) {
        if (batch.valid()[row] == 1) seen.insert(batch.samples()[row]);
      }
    }
    CHECK(rows == 3);
  }
  CHECK(seen.size() == 10);
  CHECK(std::set<std::uint64_t>(seen.begin(), seen.end()).size() == 10);
}

TEST_CASE("Case 25: stopping and starting again, many times, is quick and clean", "[cases]") {
  TemporaryFolder folder;
  const std::string path = write_shards(folder, {100});
  const std::size_t descriptors = names_in("/proc/self/fd").size();
  for (int round = 0; round < 30; ++round) {
    LoaderOptions with = options(8, 10);
    with.pin_memory = true;
    auto loader = std::make_unique<Loader>(path, with);
    Batch batch;
    for (int i = 0; i < 3; ++i) REQUIRE(loader->next(batch));
    std::set<std::uint64_t> seen;
    for (const Batch& again : loader->epoch(1)) {
      REQUIRE(again.epoch() == 1);
      seen.insert(again.samples().begin(), again.samples().end());
    }
    REQUIRE(seen.size() == 100);
  }
  CHECK(names_in("/proc/self/fd").size() == descriptors);
  CHECK(names_in("/proc/self/task").size() == 1);
  CHECK(descendants().empty());
}

TEST_CASE("Case 41: nothing is left behind by killed runs, and runs do not collide", "[cases]") {
  TemporaryFolder folder;
  const std::string path = write_shards(folder, {200});
  const auto shm = names_in("/dev/shm");
  const auto files = names_in(folder.path());
  for (int run = 0; run < 3; ++run) {
    pid_t group = 0;
    in_child(
        [&] {
          Loader loader(path, options(4, 4));
          for (std::uint64_t epoch = 0;; ++epoch) {
            for (const Batch& batch : loader.epoch(epoch)) {
              if (batch.size() == 0) return;
            }
          }
        },
        [&](pid_t pid) {
          group = pid;
          std::this_thread::sleep_for(150ms);
          kill(-pid, SIGKILL);
        });
    CHECK(group_is_empty(group));
  }
  CHECK(names_in("/dev/shm") == shm);
  CHECK(names_in(folder.path()) == files);
  std::vector<pid_t> runs;
  for (int run = 0; run < 4; ++run) {
    const pid_t pid = fork();
    if (pid == 0) {
      int status = 1;
      try {
        Loader loader(path, options(3, 7));
        std::set<std::uint64_t> seen;
        for (const Batch& batch : loader.epoch(0)) {
          seen.insert(batch.samples().begin(), batch.samples().end());
        }
        status = seen.size() == 200 ? 0 : 2;
      } catch (...) {
      }
      _exit(status);
    }
    runs.push_back(pid);
  }
  for (const pid_t pid : runs) {
    int status = 1;
    waitpid(pid, &status, 0);
    CHECK(status == 0);
  }
}

TEST_CASE("Case 46: another order in every epoch by itself, ranks disjoint in each", "[cases]") {
  TemporaryFolder folder;
  const std::string path = write_shards(folder, {8});
  std::vector<std::vector<std::uint64_t>> orders;
  for (int rank = 0; rank < 2; ++rank) {
    LoaderOptions with = options(1, 4);
    with.shuffle = Shuffle::kFull;
    with.rank = rank;
    with.world_size = 2;
    Loader loader(path, with);
    Batch batch;
    for (int epoch = 0; epoch < 2; ++epoch) {
      REQUIRE(loader.next(batch));
      orders.emplace_back(batch.samples().begin(), batch.samples().end());
      REQUIRE_FALSE(loader.next(batch));
      loader.start_epoch(loader.current_epoch() + 1);
    }
    loader.start_epoch(0);
    REQUIRE(loader.next(batch));
    CHECK(std::ranges::equal(batch.samples(), orders[static_cast<std::size_t>(2 * rank)]));
  }
  CHECK(orders[0] != orders[1]);
  for (std::size_t epoch = 0; epoch < 2; ++epoch) {
    std::set<std::uint64_t> all(orders[epoch].begin(), orders[epoch].end());
    all.insert(orders[2 + epoch].begin(), orders[2 + epoch].end());
    CHECK(all.size() == 8);
  }
}

TEST_CASE("Case 47: one slow sample holds up nobody else, and is named", "[cases]") {
  TemporaryFolder folder;
  const std::string path = write_shards(folder, {200});
  LoaderOptions with = options(4, 1);
  with.prefetch = 40;
  with.outputs.push_back(
      sleeping_output([](std::string_view key) { return key == "key000000" ? 700ms : 5ms; }));
  Loader loader(path, with);
  std::uint64_t next = 0;
  std::uint64_t done_by_others = 0;
  for (const Batch& batch : loader.epoch(0)) {
    if (next == 0) {
      for (const WorkerStats& worker : loader.stats().workers) done_by_others += worker.samples;
    }
    REQUIRE(batch.samples()[0] == next++);
  }
  CHECK(next == 200);
  CHECK(done_by_others >= 20);  // the others went on while the first was being made
  std::uint64_t slowest = 1;
  std::uint64_t longest = 0;
  for (const WorkerStats& worker : loader.stats().workers) {
    if (worker.slowest_ns > longest) {
      longest = worker.slowest_ns;
      slowest = worker.slowest_sample;
    }
  }
  CHECK(slowest == 0);
  CHECK(longest > 600'000'000);
}

TEST_CASE("Case 68: what never returns is left out, or ends by its time-out", "[cases]") {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "raw" / "c");
  write_text(folder / "raw" / "c" / "a.txt", "text");
  REQUIRE(mkfifo((folder / "raw" / "c" / "x.txt").c_str(), 0600) == 0);
  LoaderOptions with = options(1, 1);
  with.outputs = {bytes_output("text", "txt")};
  {
    Loader raw((folder / "raw").string(), with);
    CHECK(raw.dataset().size() == 1);
    const auto& warnings = raw.dataset().info().warnings;
    CHECK(std::any_of(warnings.begin(), warnings.end(), [](const std::string& warning) {
      return warning.find("1") != std::string::npos && warning.find("x.txt") != std::string::npos;
    }));
  }

  const std::string path = write_shards(folder, {20});
  LoaderOptions slow = options(2, 4);
  slow.sample_timeout_ms = 200;
  slow.outputs.push_back(
      sleeping_output([](std::string_view key) { return key == "key000009" ? 60'000ms : 0ms; }));
  {
    Loader loader(path, slow);
    Batch batch;
    REQUIRE(loader.next(batch));
    REQUIRE(loader.next(batch));
    CHECK_THROWS_WITH(loader.next(batch),
                      Catch::Contains("key000009") && Catch::Contains("sample_timeout_ms = 200"));
  }
  CHECK(descendants().empty());
  slow.num_workers = 0;
  CHECK_THROWS_WITH(Loader(path, slow), Catch::Contains("sample_timeout_ms"));
}

TEST_CASE("Case 70: Ctrl-C and SIGTERM end the program by that signal, and everything with it",
          "[cases]") {
  TemporaryFolder folder;
  const std::string path = write_shards(folder, {400});
  for (const int number : {SIGINT, SIGTERM}) {
    for (const auto delay : {0ms, 20ms, 300ms}) {  // in start-up, and amid an epoch
      pid_t group = 0;
      std::chrono::steady_clock::time_point sent;
      const std::string noise = (folder / "noise").string();
      const int status = in_child(
          [&] {
            const int fd = open(noise.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
            dup2(fd, STDERR_FILENO);
            signal(number, SIG_DFL);
            LoaderOptions with = options(8, 4);
            with.outputs.push_back(sleeping_output([](std::string_view) { return 5ms; }));
            Loader loader(path, with);
            for (std::uint64_t epoch = 0;; ++epoch) {
              for (const Batch& batch : loader.epoch(epoch)) {
                if (batch.size() == 0) return;
              }
            }
          },
          [&](pid_t pid) {
            group = pid;
            while (kill(-pid, 0) != 0) std::this_thread::sleep_for(1ms);  // its group is there
            std::this_thread::sleep_for(delay);
            kill(-pid, number);
          });
      CHECK(WIFSIGNALED(status));
      CHECK(WTERMSIG(status) == number);
      CHECK(group_is_empty(group));
      std::ifstream in(noise);
      int lines = 0;
      for (std::string line; std::getline(in, line);) {
        lines += line.find("this process may use") == std::string::npos ? 1 : 0;
      }
      CHECK(lines == 0);
    }
  }
}

TEST_CASE("Case 77: a size that the header alone announces is an error with that size", "[cases]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 4);
  // The size of a member in octal, at byte 124 of its header: 3 GiB.
  std::fstream file(folder / "data.tar", std::ios::in | std::ios::out | std::ios::binary);
  std::string block(512, '\0');
  std::size_t at = 0;
  for (;; at += 512) {
    file.seekg(static_cast<std::streamoff>(at));
    file.read(block.data(), 512);
    if (block.starts_with("key000002.bin")) break;
  }
  std::memcpy(block.data() + 124, "30000000000", 11);
  std::memset(block.data() + 148, ' ', 8);
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  std::memcpy(block.data() + 148, text, 7);
  file.seekp(static_cast<std::streamoff>(at));
  file.write(block.data(), 512);
  file.close();
  for (const int workers : {0, 2}) {
    LoaderOptions with = options(workers, 2);
    with.outputs = {bytes_output("data", "bin")};
    CHECK_THROWS_WITH(
        [&] {
          Loader loader((folder / "data.tar").string(), with);
          Batch batch;
          while (loader.next(batch)) continue;
        }(),
        Catch::Contains("3221225472"));
  }
}
