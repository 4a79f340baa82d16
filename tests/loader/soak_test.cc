// SPDX-License-Identifier: Apache-2.0
// Worker kills, early breaks, resumes with other numbers of workers and bad samples, all at random:
// the sequence must be the promised one. SHARDMILL_SOAK_SECONDS=600 makes it a long run.
#include <shardmill/formats/error.h>
#include <shardmill/loader/loader.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <iostream>

#include "tests/loader/loader_test_data.h"
#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

constexpr std::size_t kSamples = 1500;

LoaderOptions options(int workers, Shuffle shuffle, BadSamples policy) {
  LoaderOptions options;
  options.outputs = {class_output(), bytes_output("data", "bin"), array_output("array", "npy"),
                     random_output(),
                     computed_output("odd", {DType::kUInt8, {}}, [](const RowContext& context) {
                       context.row[0] = std::byte{1};
                       if (context.sample.key.ends_with("13")) throw std::runtime_error("thirteen");
                     })};
  options.batch_size = 16;
  options.shuffle = shuffle;
  options.block_size = 8;
  options.block_window = 8;
  options.seed = 5;
  options.num_workers = workers;
  options.bad_samples = policy;
  options.max_bad_fraction = 1;
  options.max_worker_restarts = 1'000'000;
  return options;
}

// One run after the other on one dataset, each compared batch by batch with a loader of no workers.
class Soak {
 public:
  explicit Soak(std::string path) : path_(std::move(path)) {}

  void run(std::chrono::seconds length) {
    const auto end = std::chrono::steady_clock::now() + length;
    do {
      const auto shuffle = static_cast<Shuffle>(random_.below(3));
      const BadSamples policy = random_.below(2) == 0 ? BadSamples::kSkip : BadSamples::kReplace;
      Loader reference(path_, options(0, shuffle, policy));
      std::string state;
      for (int life = 0; life < 4; ++life) {  // each resumes the one before
        const int workers = 1 + static_cast<int>(random_.below(6));
        Loader loader(path_, options(workers, shuffle, policy));
        if (!state.empty()) loader.resume(state);
        live(loader, reference);
        state = loader.state();
        deaths_ += loader.stats().deaths;
        bad_ += loader.stats().bad_samples;
      }
    } while (std::chrono::steady_clock::now() < end);
    std::printf("%lu batches as promised, %lu kills seen, %lu bad samples, %lu breaks\n", batches_,
                deaths_, bad_, breaks_);
    CHECK(deaths_ > 0);
    CHECK(bad_ > 0);
    CHECK(breaks_ > 0);
  }

 private:
  void live(Loader& loader, Loader& reference) {
    reference.resume(loader.state());
    Batch batch;
    Batch expected;
    const std::uint64_t length = 20 + random_.below(200);
    for (std::uint64_t i = 0; i < length; ++i) {
      if (random_.below(60) == 0) {  // leaves the epoch early
        const std::uint64_t epoch = random_.below(5);
        loader.start_epoch(epoch);
        reference.start_epoch(epoch);
        ++breaks_;
      }
      if (since_kill_ > kApart && random_.below(10) == 0) kill_one(loader);
      if (!loader.next(batch)) {
        REQUIRE_FALSE(reference.next(expected));
        loader.start_epoch(loader.current_epoch() + 1);
        reference.start_epoch(reference.current_epoch() + 1);
        continue;
      }
      REQUIRE(reference.next(expected));
      REQUIRE(fingerprint(batch) == fingerprint(expected));
      ++batches_;
      ++since_kill_;
    }
    REQUIRE(loader.state() == reference.state());
  }

  void kill_one(const Loader& loader) {
    constexpr int kSignals[] = {SIGKILL, SIGSEGV, SIGBUS};
    const std::vector<WorkerStats> workers = loader.stats().workers;
    const int pid = workers[random_.below(workers.size())].pid;
    if (pid <= 0) return;
    kill(pid, kSignals[random_.below(3)]);
    since_kill_ = 0;
  }

  // Batches between two kills: a sample that is hit twice would rightly be taken for the culprit.
  static constexpr std::uint64_t kApart = 8;

  std::string path_;
  Random random_{17, 0, 0};
  std::uint64_t since_kill_ = 0;
  std::uint64_t batches_ = 0;
  std::uint64_t deaths_ = 0;
  std::uint64_t bad_ = 0;
  std::uint64_t breaks_ = 0;
};

}  // namespace

TEST_CASE("Kills, breaks, resumes and bad samples: exactly the promised sequence", "[soak]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", kSamples);
  const char* const seconds = std::getenv("SHARDMILL_SOAK_SECONDS");
  Soak((folder / "data.tar").string())
      .run(std::chrono::seconds(seconds != nullptr ? std::atoi(seconds) : 5));
  CHECK(descendants().empty());
}
