// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include "loader/internal/autoscale.h"
#include "loader/internal/stats_file.h"
#include "loader/internal/worker_budget.h"

namespace shardmill::internal {

/// Keeps the number of workers where it does most good while batches are consumed: measures
/// windows of batches from the statistics, asks an Autoscaler, and orders what the process's
/// budget grants. One thread, the trainer's.
class WorkerPacer {
 public:
  /// `most`: never more workers than this; `order` makes it so.
  WorkerPacer(const StatsFile& stats, int workers, int cpus, int most, WorkerBudget::Order order);

  int workers() const noexcept { return member_.workers(); }
  /// Called when the consumer asks for a batch.
  void batch_asked();
  /// Called when it has got one.
  void batch_delivered();

 private:
  using Clock = std::chrono::steady_clock;
  struct Sums {
    std::uint64_t batches = 0;
    std::uint64_t samples = 0;  // made by workers
    std::uint64_t wait_ns = 0;
    std::uint64_t work_ns = 0;
    std::uint64_t idle_ns = 0;
  };
  Sums sums() const;
  void begin_window();
  void want(int workers);

  const StatsFile& stats_;
  Autoscaler scaler_;
  WorkerBudget::Member member_;
  int wanted_;               // what the rule wants; the budget may grant fewer
  Clock::time_point last_;   // batch delivered
  Clock::time_point asked_;  // for workers that were not granted
  Clock::time_point begin_;  // of the window
  Sums before_;
};

/// Makes windows this long instead of 2 s. For tests.
void set_window_for_testing(std::chrono::milliseconds length);

}  // namespace shardmill::internal
