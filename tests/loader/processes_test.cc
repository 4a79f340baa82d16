// SPDX-License-Identifier: Apache-2.0
// The real loader when processes die: workers, the nursery, the trainer.
#include <dirent.h>
#include <shardmill/formats/error.h>
#include <shardmill/loader/loader.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
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

LoaderOptions options(int workers) {
  LoaderOptions options;
  options.outputs = {class_output(), bytes_output("data", "bin"), random_output()};
  options.batch_size = 8;
  options.shuffle = Shuffle::kFull;
  options.seed = 7;
  options.num_workers = workers;
  options.max_worker_restarts = 100'000;
  return options;
}

// An output whose function takes `ms` and fills rows with the sample's class.
Output slow_output(int ms) {
  return computed_output("slow", {DType::kUInt8, {4096}}, [ms](const RowContext& context) {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    std::memset(context.row.data(), context.sample.find("cls")->bytes[0] == std::byte{'1'} ? 1 : 2,
                context.row.size());
  });
}

// An output whose function kills its worker by `signal` for sample key000042; every time, or the
// first time only (there is a file then).
Output deadly_output(int signal, const std::filesystem::path& once = {}) {
  return computed_output("deadly", {DType::kUInt8, {}}, [=](const RowContext& context) {
    context.row[0] = std::byte{1};
    if (context.sample.key != "key000042") return;
    if (!once.empty() && std::filesystem::exists(once)) return;
    if (!once.empty()) std::ofstream(once) << "died";
    raise(signal);
  });
}

bool alive(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(in, text);
  const std::size_t end = text.rfind(')');
  return end != std::string::npos && text[end + 2] != 'Z' && text[end + 2] != 'X';
}

bool all_gone(const std::vector<int>& pids, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (std::any_of(pids.begin(), pids.end(), alive)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

}  // namespace

TEST_CASE("Workers killed at random leave the batches bit-identical", "[processes]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 150);
  const std::string path = (folder / "data.tar").string();
  LoaderOptions with = options(0);
  with.outputs.push_back(slow_output(1));
  Loader reference(path, with);
  const auto expected = load_all(reference, {0, 1});
  with.num_workers = 4;
  for (int round = 0; round < 5; ++round) {
    Loader loader(path, with);
    // The next kill waits until the samples of the last one are delivered: a sample that is hit
    // twice would rightly be taken for the culprit.
    std::jthread killer([&](const std::stop_token& stop) {
      Random random(static_cast<std::uint64_t>(round), 1, 2);
      while (!stop.stop_requested()) {
        const WorkerStats victim = loader.stats().workers[random.below(4)];
        if (victim.pid > 0) kill(victim.pid, SIGKILL);
        const std::uint64_t seen = loader.stats().samples;
        while (!stop.stop_requested() && loader.stats().samples < seen + 60) {
          std::this_thread::sleep_for(std::chrono::microseconds(random.below(2000)));
        }
      }
    });
    const auto batches = load_all(loader, {0, 1});
    killer = {};
    CHECK(batches == expected);
    CHECK(loader.stats().deaths > 0);
  }
}

TEST_CASE("A sample that kills once is done again, one that kills twice is bad", "[processes]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 100);
  const std::string path = (folder / "data.tar").string();
  LoaderOptions with = options(2);
  with.max_worker_restarts = 1;
  for (const int signal : {SIGKILL, SIGSEGV}) {
    with.outputs = {class_output(),
                    deadly_output(signal, folder / ("once" + std::to_string(signal)))};
    Loader once(path, with);
    CHECK(load_all(once, {0}).size() == 13);
    CHECK(once.stats().deaths == 1);
    CHECK(once.stats().redone == 1);
  }
  // The deaths of a bad sample do not count towards max_worker_restarts.
  with.outputs = {class_output(), deadly_output(SIGSEGV)};
  Loader twice(path, with);
  int good = 0;
  std::string message;
  for (int i = 0; i < 13; ++i) {
    try {
      Batch batch;
      good += twice.next(batch) ? 1 : 0;
    } catch (const Error& error) {
      message = error.what();
    }
  }
  CHECK(good == 12);
  CHECK_THAT(message, Catch::Contains("data.tar") && Catch::Contains("sample \"key000042\"") &&
                          Catch::Contains("signal 11") && Catch::Contains("twice"));
}

TEST_CASE("Too many deaths end the run with an error that says who died how", "[processes]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 100);
  LoaderOptions with = options(2);
  with.max_worker_restarts = 0;
  with.outputs = {slow_output(5)};
  {
    Loader loader((folder / "data.tar").string(), with);
    Batch batch;
    REQUIRE(loader.next(batch));
    kill(loader.stats().workers[1].pid, SIGKILL);
    const auto run_on = [&] {
      while (loader.next(batch)) {
      }
    };
    CHECK_THROWS_WITH(run_on(), Catch::Contains("signal 9 (Killed)") &&
                                    Catch::Contains("max_worker_restarts is 0") &&
                                    Catch::Contains("memory"));
    CHECK_THROWS_WITH(loader.next(batch), Catch::Contains("failed before"));
  }
  CHECK(descendants().empty());
}

TEST_CASE("A sample over its time is bad and its worker is replaced", "[processes]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 20);
  LoaderOptions with = options(2);
  with.max_worker_restarts = 0;
  with.shuffle = Shuffle::kNone;
  with.sample_timeout_ms = 300;
  with.outputs = {computed_output("slow", {DType::kUInt8, {}}, [](const RowContext& context) {
    context.row[0] = std::byte{1};
    if (context.sample.key == "key000009") std::this_thread::sleep_for(60s);
  })};
  Loader loader((folder / "data.tar").string(), with);
  Batch batch;
  REQUIRE(loader.next(batch));
  CHECK_THROWS_WITH(loader.next(batch), Catch::Contains("sample \"key000009\"") &&
                                            Catch::Contains("sample_timeout_ms = 300"));
  REQUIRE(loader.next(batch));
}

TEST_CASE("The end of the nursery ends the workers and is an error", "[processes]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 200);
  LoaderOptions with = options(3);
  with.outputs = {slow_output(20)};
  Loader loader((folder / "data.tar").string(), with);
  Batch batch;
  REQUIRE(loader.next(batch));
  std::vector<int> processes = {descendants().at(0)};
  for (const WorkerStats& worker : loader.stats().workers) {
    if (worker.pid > 0) processes.push_back(worker.pid);
  }
  kill(processes[0], SIGKILL);
  const auto run_on = [&] {
    while (loader.next(batch)) {
    }
  };
  CHECK_THROWS_WITH(run_on(), Catch::Contains("looks after the workers was killed"));
  CHECK(all_gone({processes.begin() + 1, processes.end()}, 2s));
}

TEST_CASE("A killed trainer leaves no process and no file", "[processes]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 500);
  const auto shm_before = names_in("/dev/shm");
  const auto files_before = names_in(folder.path());
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t trainer = fork();
  if (trainer == 0) {
    try {
      LoaderOptions with = options(4);
      with.outputs = {slow_output(5)};
      Loader loader((folder / "data.tar").string(), with);
      std::vector<int> processes = {descendants().at(0)};  // the nursery; the scout may still end
      for (std::size_t row = 0; row < 4; ++row) {
        while (loader.stats().workers[row].pid == 0) std::this_thread::sleep_for(1ms);
        processes.push_back(loader.stats().workers[row].pid);
      }
      [[maybe_unused]] const auto n = write(pipe_ends[1], processes.data(), 5 * sizeof(int));
      for (Batch batch; loader.next(batch);) continue;
      loader.start_epoch(1);
      pause();
    } catch (...) {
    }
    _exit(1);
  }
  close(pipe_ends[1]);
  std::vector<int> processes(5);
  const ssize_t got = read(pipe_ends[0], processes.data(), 5 * sizeof(int));
  close(pipe_ends[0]);
  const bool all_alive = std::all_of(processes.begin(), processes.end(), alive);
  kill(trainer, SIGKILL);
  waitpid(trainer, nullptr, 0);
  REQUIRE(got == 5 * sizeof(int));
  CHECK(all_alive);
  CHECK(all_gone(processes, 3s));
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  CHECK(names_in("/dev/shm") == shm_before);
  CHECK(names_in(folder.path()) == files_before);
}

TEST_CASE("Signals to the whole group leave the workers alone", "[processes]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 100);
  const pid_t trainer = fork();
  if (trainer == 0) {
    setpgid(0, 0);
    for (const int number : {SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGINT}) {
      std::signal(number, [](int) {});
    }
    LoaderOptions with = options(3);
    with.max_worker_restarts = 0;
    Loader reference((folder / "data.tar").string(), options(0));
    const auto expected = load_all(reference, {0});
    Loader loader((folder / "data.tar").string(), with);
    for (const int number : {SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGINT}) {
      kill(0, number);
      if (load_all(loader, {0}) != expected) _exit(1);
    }
    _exit(loader.stats().deaths == 0 ? 0 : 2);
  }
  int status = 1;
  waitpid(trainer, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("The destructor is quick, and processes and descriptors do not add up", "[processes]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 100);
  const auto open_files = [] { return names_in("/proc/self/fd").size(); };
  const std::size_t before = open_files();
  for (int round = 0; round < 20; ++round) {
    Loader loader((folder / "data.tar").string(), options(8));
    Batch batch;
    REQUIRE(loader.next(batch));
  }
  CHECK(open_files() == before);
  CHECK(descendants().empty());
}

TEST_CASE("A /dev/shm of 64 MiB is no limit", "[processes]") {
  // Row 1 of the collected faults: batches of 154 MB, two workers. Needs the right to mount.
  if (run_command("unshare -m true").status != 0) return skip("cannot make a mount namespace");
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 600);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const CommandResult result = run_command(
      "unshare -m sh -c 'mount -t tmpfs -o size=64m none /dev/shm && exec env "
      "SHARDMILL_BIG_BATCH=" +
      (folder / "data.tar").string() + " " + self + " \"[.big_batch]\"'");
  INFO(result.out << result.err);
  CHECK(result.status == 0);
}

TEST_CASE("Batches of 154 MB, run by the test above", "[.big_batch]") {
  const char* path = std::getenv("SHARDMILL_BIG_BATCH");
  REQUIRE(path != nullptr);
  LoaderOptions with = options(2);
  with.batch_size = 256;
  with.prefetch = 2;
  with.outputs = {
      computed_output("image", {DType::kFloat32, {3, 224, 224}}, [](const RowContext& context) {
        std::memset(context.row.data(), std::to_integer<int>(context.sample.find("cls")->bytes[0]),
                    context.row.size());
      })};
  Loader loader(path, with);
  std::uint64_t rows = 0;
  for (const Batch& batch : loader.epoch(0)) {
    const std::size_t row_bytes = batch["image"].row.bytes();
    for (std::size_t row = 0; row < batch.size(); ++row) {
      const auto expected = static_cast<std::byte>('0' + batch.samples()[row] % 10);
      REQUIRE(batch["image"].data[row * row_bytes] == expected);
      REQUIRE(batch["image"].data[(row + 1) * row_bytes - 1] == expected);
      ++rows;
    }
  }
  CHECK(rows == 600);
}

TEST_CASE("A dataset of more than the available memory per batch is refused", "[processes]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 10);
  LoaderOptions with = options(2);
  with.batch_size = 100'000;
  with.outputs = {
      computed_output("huge", {DType::kFloat32, {3, 224, 224}}, [](const RowContext&) {})};
  CHECK_THROWS_WITH(Loader((folder / "data.tar").string(), with),
                    Catch::Contains("batch memory") && Catch::Contains("smaller batch_size"));
}
