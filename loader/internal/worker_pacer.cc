// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/worker_pacer.h"

#include <algorithm>
#include <utility>

namespace shardmill::internal {

namespace {

constexpr std::uint64_t kLeastBatches = 20;  // in a window
// A consumer that was away for longer did something else: validation, a checkpoint.
constexpr std::chrono::seconds kAway{1};
constexpr std::chrono::milliseconds kAskAgain{500};
std::chrono::milliseconds window_length{2000};

double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void set_window_for_testing(std::chrono::milliseconds length) { window_length = length; }

WorkerPacer::WorkerPacer(const StatsFile& stats, int workers, int cpus, int most,
                         WorkerBudget::Order order)
    : stats_(stats),
      scaler_(workers, cpus, most),
      member_(WorkerBudget::of_process(), most, std::move(order)),
      wanted_(scaler_.workers()) {
  member_.reserve(wanted_);  // the others have not to wait before this one is used
  begin_window();
}

WorkerPacer::Sums WorkerPacer::sums() const {
  Sums sums;
  sums.batches = stats_.batches.load(std::memory_order_relaxed);
  sums.wait_ns = stats_.wait_ns.load(std::memory_order_relaxed);
  for (std::size_t row = 0; row < stats_.workers.load(); ++row) {
    const StatsRow& worker = stats_.rows[row];
    sums.samples += worker.samples.load(std::memory_order_relaxed);
    sums.work_ns += worker.read_ns.load(std::memory_order_relaxed) +
                    worker.produce_ns.load(std::memory_order_relaxed);
    sums.idle_ns += worker.idle_ns.load(std::memory_order_relaxed);
  }
  return sums;
}

void WorkerPacer::begin_window() {
  begin_ = last_ = Clock::now();
  before_ = sums();
}

// Asks the budget for `workers` and tells the rule what it granted.
void WorkerPacer::want(int workers) {
  wanted_ = workers;
  asked_ = Clock::now();
  const int granted = member_.ask(workers);
  if (granted != scaler_.workers()) scaler_.correct(granted);
}

void WorkerPacer::batch_asked() {
  const Clock::time_point now = Clock::now();
  const bool back = now - last_ >= kAway;
  const int workers = member_.workers();
  if (workers == 0 || (workers < wanted_ && now - asked_ >= kAskAgain)) {
    // Another loader has had some of this one's workers; it may be idle now.
    want(wanted_);
    begin_window();
  } else if (back) {
    member_.touch();
    begin_window();
  }
}

void WorkerPacer::batch_delivered() {
  const Clock::time_point now = Clock::now();
  last_ = now;
  if (now - begin_ < window_length) return;
  if (stats_.batches.load(std::memory_order_relaxed) - before_.batches < kLeastBatches) return;
  const Sums after = sums();
  const double time = seconds(now - begin_);
  const auto batches = static_cast<double>(after.batches - before_.batches);
  const auto samples =
      static_cast<double>(std::max<std::uint64_t>(after.samples - before_.samples, 1));
  const double work = static_cast<double>(after.work_ns - before_.work_ns) * 1e-9;
  const double idle = static_cast<double>(after.idle_ns - before_.idle_ns) * 1e-9;
  const double wait = static_cast<double>(after.wait_ns - before_.wait_ns) * 1e-9;
  const Window window{.wait = std::min(1.0, wait / time),
                      .busy = work + idle > 0 ? work / (work + idle) : 0,
                      .rate = batches / time,
                      .cost = work / samples,
                      .step = std::max(0.0, time - wait) / batches};
  member_.touch();
  const int before = scaler_.workers();
  const int wanted = scaler_.observe(window);
  if (wanted != before) want(wanted);
  begin_window();
}

}  // namespace shardmill::internal
