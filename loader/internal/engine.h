// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/batch.h>
#include <shardmill/loader/options.h>
#include <shardmill/loader/stats.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/internal/bad_samples.h"
#include "loader/internal/crew.h"
#include "loader/internal/device.h"
#include "loader/internal/planner.h"
#include "loader/internal/producer.h"
#include "loader/internal/shared.h"
#include "loader/internal/worker_pacer.h"

namespace shardmill::internal {

/// What is behind a Loader: publishes the batches that the planner names into slots, waits for the
/// crew to fill them, and lends them. One thread; see loader.h for what each call promises.
class Engine {
 public:
  /// Loads what `specs` name, or `datasets` where they are open already; `weights` make it a
  /// mixture.
  Engine(std::vector<std::string> specs, std::vector<double> weights, std::vector<Dataset> datasets,
         LoaderOptions options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const LoaderOptions& options() const noexcept { return shared_.options; }
  const std::vector<Dataset>& datasets() const noexcept { return shared_.corpus.datasets(); }
  Place epoch_start() const noexcept { return planner_->start_of(0); }
  std::uint64_t epoch() const noexcept { return delivering_.epoch; }

  void start_epoch(std::uint64_t epoch);
  bool next(Batch& batch);
  bool ready() const;
  std::string state() { return planner_->state_at(delivering_); }
  void resume(std::string_view state);
  Batch replay(std::uint64_t epoch, std::uint64_t position);
  double shuffle_quality() { return planner_->quality(delivering_); }
  LoaderStats stats() const;

 private:
  // A batch that was published and not yet delivered.
  struct InFlight {
    std::uint32_t slot = 0;
    std::uint64_t epoch = 0;
    std::uint64_t batch = 0;
  };

  // Setting up; engine_setup.cc.
  void check_datasets() const;
  void open_slots();
  void start_crew(bool adapt);
  void warn_of_oddities() const;
  void try_pinning();

  void check_usable() const;
  void set_place(const Place& place);
  void prepare(std::uint32_t slot);
  void publish_ahead();
  std::uint32_t wait_for_slot();
  std::uint32_t take_prepared();
  std::uint32_t produce(const std::vector<PlanEntry>& rows);
  template <class Wait>
  void guarded(const Wait& wait);
  void wait_for_batch(std::uint32_t slot);
  void drain();
  bool deliver(std::uint32_t slot, Batch& batch);
  bool settle_bad_samples(const SlotControl& control);

  const bool seed_given_;
  Shared shared_;
  std::unique_ptr<Crew> crew_;          // with workers
  std::unique_ptr<WorkerPacer> pacer_;  // with num_workers = kAuto; before the crew it orders ends
  std::unique_ptr<Producer> producer_;  // without workers
  std::vector<OutputPlace> places_;
  std::optional<Planner> planner_;
  std::optional<BadSampleLedger> ledger_;
  std::deque<InFlight> in_flight_;
  Place delivering_;                  // the next batch to deliver
  Place publishing_;                  // the next batch to publish
  std::unique_ptr<Engine> replayer_;  // makes single rows
  std::shared_ptr<Device> device_;    // while pinning works
  bool pinning_tried_ = false;
  bool failed_ = false;
};

}  // namespace shardmill::internal
