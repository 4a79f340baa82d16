// SPDX-License-Identifier: Apache-2.0
// num_workers = auto: the rule alone against simulated loads, and the loader that follows it.
#include "loader/internal/autoscale.h"

#include <shardmill/loader/loader.h>
#include <shardmill/loader/random.h>
#include <shardmill/loader/system/cpus.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <thread>

#include "loader/internal/worker_pacer.h"
#include "tests/loader/loader_test_data.h"
#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill;
using namespace shardmill::internal;
using namespace shardmill::test;
using namespace std::chrono_literals;

namespace {

// A machine on which a sample costs `cpu` seconds of a CPU and `io` seconds of waiting, and a
// training step `step` seconds; each may change over time.
struct Load {
  int cpus = 2;
  std::function<double(int)> cpu;
  double io = 0;
  std::function<double(int)> step;
  int start = 2;
  int most = 16;
};

double noisy(Random& random) {  // 4 % about 1
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random.uniform();
  return 1 + 0.04 * sum;
}

// The numbers of workers in each of 240 windows.
std::vector<int> simulate(const Load& load, std::uint64_t seed) {
  constexpr double kSeconds = 2;
  constexpr double kRing = 4;  // batches
  Random random(seed, 0, 0);
  Autoscaler scaler(load.start, load.cpus, load.most);
  std::vector<int> track;
  double ready = 0;
  for (int window = 0; window < 240; ++window) {
    const double cpu = load.cpu(window);
    const double step = load.step(window);
    const double workers = scaler.workers();
    const double crowd = 1 - 0.003 * std::max(0.0, workers - load.cpus);
    const double possible =
        std::min(workers / (cpu + load.io), load.cpus / cpu) * crowd * noisy(random);
    const double needed = step > 0 ? 1 / step : 1e9;
    const double got = std::min(needed, possible + ready / kSeconds);
    const double made = std::min(possible, got + (kRing - ready) / kSeconds);
    ready = std::clamp(ready + (made - got) * kSeconds, 0.0, kRing);
    track.push_back(scaler.observe({.wait = step > 0 ? std::max(0.0, 1 - got * step) : 1,
                                    .busy = std::min(1.0, made / possible),
                                    .rate = got,
                                    .cost = cpu + load.io,
                                    .step = step}));
  }
  return track;
}

std::function<double(int)> always(double value) {
  return [value](int) { return value; };
}

std::function<double(int)> first(double value, double then) {
  return [=](int window) { return window < 120 ? value : then; };
}

// Over 40 seeds all numbers from window `begin` to `end` lie in [least, most], and change at most
// `changes` times.
void check_settles(const Load& load, int begin, int end, int least, int most, int changes) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const std::vector<int> track = simulate(load, seed);
    int changed = 0;
    for (int window = begin; window < end; ++window) {
      const auto w = static_cast<std::size_t>(window);
      INFO("seed " << seed << " window " << window);
      REQUIRE(track[w] >= least);
      REQUIRE(track[w] <= most);
      changed += track[w] != track[w - 1] ? 1 : 0;
    }
    CHECK(changed <= changes);
  }
}

LoaderOptions options() {
  LoaderOptions options;
  options.batch_size = 4;
  options.shuffle = Shuffle::kFull;
  options.seed = 1;
  return options;
}

Output sleeping_output(std::chrono::microseconds time) {
  return computed_output("slept", {DType::kUInt8, {}}, [time](const RowContext& context) {
    std::this_thread::sleep_for(time);
    context.row[0] = std::byte{1};
  });
}

}  // namespace

TEST_CASE("The rule settles where workers stop paying, and stays there", "[auto]") {
  const std::vector<double> unused;
  SECTION("bound by two CPUs") {
    check_settles({2, always(0.1), 0, always(0), 2, 16}, 80, 240, 2, 3, 4);
  }
  SECTION("the same, begun with too many") {
    check_settles({2, always(0.1), 0, always(0), 8, 16}, 200, 240, 2, 8, 0);
    int few = 0;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      few += simulate({2, always(0.1), 0, always(0), 8, 16}, seed).back() <= 3 ? 1 : 0;
    }
    CHECK(few >= 28);
  }
  SECTION("asleep most of the time: all that are allowed") {
    check_settles({2, always(0.002), 0.1, always(0), 2, 16}, 120, 240, 15, 16, 3);
  }
  SECTION("a slow step and cheap data: one") {
    check_settles({8, always(0.02), 0, always(0.1), 8, 16}, 80, 240, 1, 1, 0);
  }
  SECTION("a step that needs 2.8 of 8") {
    check_settles({8, always(0.1), 0, always(0.036), 1, 16}, 80, 240, 3, 4, 4);
  }
  SECTION("a step that becomes ten times as fast") {
    const Load load{8, always(0.1), 0, first(0.2, 0.02), 2, 16};
    check_settles(load, 80, 119, 1, 1, 0);
    check_settles(load, 200, 240, 5, 7, 4);
  }
  SECTION("samples that become four times as dear") {
    const Load load{8, first(0.05, 0.2), 0, always(0.05), 2, 16};
    check_settles(load, 80, 119, 1, 2, 2);
    check_settles(load, 200, 240, 4, 6, 4);
  }
}

TEST_CASE("A budget is shared: whoever is idle gives its workers away", "[auto]") {
  WorkerBudget budget;
  int training = 0;
  int validation = 0;
  WorkerBudget::Member first(budget, 8, [&](int workers) { training = workers; });
  CHECK(first.reserve(8) == 8);
  {
    WorkerBudget::Member second(budget, 8, [&](int workers) { validation = workers; });
    CHECK(second.reserve(8) == 0);  // its turn has not come
    CHECK(first.ask(8) == 8);
    CHECK(second.ask(8) == 1);  // the other one is in use
    std::this_thread::sleep_for(2100ms);
    CHECK(second.ask(8) == 8);
    CHECK(training == 0);
    CHECK(first.ask(8) == 1);
    CHECK(validation == 8);
    std::this_thread::sleep_for(2100ms);
    CHECK(first.ask(6) == 6);
    CHECK(validation == 2);
    CHECK(first.ask(100) == 8);
    CHECK(validation == 0);
  }
  CHECK(first.ask(100) == 8);
}

TEST_CASE("A fork of the program has a budget of its own", "[auto]") {
  WorkerBudget budget;
  int orders = 0;
  WorkerBudget::Member parent(budget, 4, [&](int) { ++orders; });
  CHECK(parent.reserve(4) == 4);
  const pid_t pid = fork();
  if (pid == 0) {
    WorkerBudget::Member child(budget, 4, [](int) {});
    const bool right = child.reserve(4) == 4 && child.ask(4) == 4 && orders == 1;
    _exit(right ? 0 : 1);
  }
  int status = 1;
  waitpid(pid, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("Workers that are too many leave, workers that pay come, and nothing is lost",
          "[auto][processes]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  write_samples(path, 403);
  set_window_for_testing(100ms);
  LoaderOptions with = options();
  with.outputs = {class_output(), bytes_output("data", "bin"), random_output()};
  with.num_workers = 0;
  Loader reference(path, with);
  const std::vector<std::string> expected = load_all(reference, {0, 1, 2, 3, 4});

  const auto run = [&](Loader& loader, int target, std::chrono::milliseconds step) {
    // As many epochs as it takes on a busy machine; the sequence is right in any case.
    for (std::uint64_t epoch = 0; epoch < 100; ++epoch) {
      std::size_t next = 0;
      for (const Batch& batch : loader.epoch(epoch)) {
        const std::string text = fingerprint(batch);
        if (epoch < 5) REQUIRE(text.starts_with(expected[epoch * 101 + next++]));
        std::this_thread::sleep_for(step);
      }
      if (epoch >= 4 && loader.stats().wanted_workers == target) return;
    }
  };
  with.num_workers = kAuto;
  SECTION("a slow consumer ends with one worker") {
    with.max_workers = 6;
    Loader loader(path, with);
    run(loader, 1, 5ms);
    CHECK(loader.stats().wanted_workers == 1);
    CHECK(loader.stats().deaths == 0);
    CHECK(loader.stats().verdict == Verdict::kConsumer);
  }
  SECTION("samples that wait get as many as are allowed") {
    with.outputs.push_back(sleeping_output(4ms));
    with.max_workers = 5;
    Loader loader(path, with);
    run(loader, 5, 0ms);
    const LoaderStats stats = loader.stats();
    CHECK(stats.wanted_workers == 5);
    CHECK(stats.deaths == 0);
    CHECK(stats.verdict == Verdict::kDecode);
  }
  set_window_for_testing(2000ms);
}

TEST_CASE("Ranks of one machine share its CPUs and memory", "[auto][cpus]") {
  const int cpus = usable_cpus();
  CHECK(ranks_on_node() == 1);
  CHECK(cpu_share() == cpus);
  for (const auto& [name, value, ranks] : std::vector<std::tuple<const char*, const char*, int>>{
           {"LOCAL_WORLD_SIZE", "8", 8},
           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2", 2},
           {"SLURM_NTASKS_PER_NODE", "4", 4},
           {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3", 4},
           {"LOCAL_WORLD_SIZE", "none", 1},
           {"LOCAL_WORLD_SIZE", "-3", 1}}) {
    setenv(name, value, 1);
    CHECK(ranks_on_node() == ranks);
    CHECK(cpu_share() == std::max(1, cpus / ranks));
    CHECK(memory_share() <= available_memory() / static_cast<unsigned>(ranks) + (64u << 20));
    unsetenv(name);
  }
}

// Run by the test below, in a process that believes in 16 CPUs.
TEST_CASE("One rank of eight", "[.rank_of_eight]") {
  LoaderOptions with = options();
  with.outputs = {sleeping_output(1ms)};
  set_window_for_testing(50ms);
  Loader loader(std::getenv("SHARDMILL_TEST_DATA"), with);
  Loader second(std::getenv("SHARDMILL_TEST_DATA"), with);  // validation
  int most = 0;
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    for (const Batch& batch : loader.epoch(epoch)) {
      REQUIRE(batch.size() > 0);
      most = std::max(most, loader.stats().wanted_workers + second.stats().wanted_workers);
    }
  }
  std::printf("workers %d\n", most);
  CHECK(loader.options().world_size == 8);
}

TEST_CASE("Eight ranks on sixteen CPUs hold sixteen workers together", "[auto][processes]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 800);
  const std::string test = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string shim = std::filesystem::path(test).parent_path() / "libsixteen_cpus.so";
  std::string command = "export ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD='" + shim +
                        "' SHARDMILL_TEST_DATA='" + (folder / "data.tar").string() + "'; ";
  for (int rank = 0; rank < 8; ++rank) {
    command += "RANK=" + std::to_string(rank) + " WORLD_SIZE=8 LOCAL_WORLD_SIZE=8 '" + test +
               "' '[.rank_of_eight]' & ";
  }
  const CommandResult result = run_command("{ " + command + "} ; wait");
  INFO(result.out << result.err);
  int ranks = 0;
  int workers = 0;
  for (std::size_t at = 0; (at = result.out.find("workers ", at)) != std::string::npos; ++at) {
    ++ranks;
    workers += std::atoi(result.out.c_str() + at + 8);
  }
  CHECK(ranks == 8);
  CHECK(workers == 16);
}
