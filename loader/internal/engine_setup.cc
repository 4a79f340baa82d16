// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>
#include <shardmill/loader/system/cpus.h>

#include <algorithm>

#include "loader/internal/engine.h"
#include "loader/internal/infer.h"
#include "loader/internal/nursery.h"
#include "loader/internal/nursery_client.h"
#include "loader/internal/thread_crew.h"
#include "loader/internal/warn.h"

namespace shardmill::internal {

namespace {

constexpr std::size_t kLentSlots = 2;  // the batch being trained on, and the one before it
constexpr std::size_t kGrowth = 4;     // times the slots that it starts with the ring may grow
constexpr std::size_t kLeastRoom = 16;

}  // namespace

Engine::Engine(std::vector<std::string> specs, std::vector<double> weights,
               std::vector<Dataset> datasets, LoaderOptions given)
    : seed_given_(given.seed.has_value()) {
  const bool adapt = given.num_workers == kAuto;
  shared_ = make_shared_state(std::move(specs), resolve_options(std::move(given)));
  ledger_.emplace(options());
  shared_.weights = std::move(weights);
  if (!datasets.empty()) shared_.corpus = Corpus(std::move(datasets));
  const bool workers = options().num_workers > 0;
  if (workers && options().workers == Workers::kProcesses) {
    crew_ = std::make_unique<NurseryClient>(shared_);
  } else {
    shared_.corpus = open_corpus(shared_);
    CorpusReader reader(shared_.corpus);
    resolve_outputs(reader, shared_.options);
  }
  check_datasets();
  planner_.emplace(shared_.options, shared_.corpus, shared_.weights);
  if (workers && !crew_) crew_ = std::make_unique<ThreadCrew>(shared_);
  open_slots();
  delivering_ = publishing_ = planner_->start_of(0);
  warn_of_oddities();
  ledger_->begin_epoch(delivering_.schedule.delivered_rows());
  if (crew_) {
    start_crew(adapt);
    publish_ahead();
  } else {
    producer_ = std::make_unique<Producer>(shared_.corpus, shared_.options);
    shared_.stats().workers.store(1);
    shared_.stats().rows[0].pid.store(getpid());
  }
}

void Engine::start_crew(bool adapt) {
  if (!adapt) return crew_->order_workers(options().num_workers);
  const auto rows = static_cast<int>(std::min<std::uint64_t>(shared_.corpus.size(), kMaxWorkers));
  shared_.options.num_workers = std::min(options().num_workers, rows);
  pacer_ = std::make_unique<WorkerPacer>(shared_.stats(), options().num_workers, cpu_share(),
                                         options().max_workers,
                                         [this](int count) { crew_->order_workers(count); });
}

// Refuses datasets that cannot be loaded as asked.
void Engine::check_datasets() const {
  for (const Dataset& dataset : shared_.corpus.datasets()) {
    if (dataset.size() == 0) {
      throw Error(ErrorCode::kInvalidArgument, dataset.spec(), {}, "the dataset holds no samples",
                  "check the path with shardmill inspect");
    }
    if (options().workers == Workers::kThreads && options().num_workers > 0 &&
        !dataset.format().traits().threads) {
      throw Error(ErrorCode::kInvalidArgument, dataset.spec(), "loader option workers",
                  "are threads, but the format " + std::string(dataset.format().name()) +
                      " cannot be read by several threads of one process",
                  "use worker processes");
    }
  }
}

void Engine::open_slots() {
  places_ = place_outputs(options().outputs, options().batch_size);
  const std::size_t ahead = crew_ ? static_cast<std::size_t>(options().prefetch) : 0;
  const std::size_t slots = ahead + kLentSlots;
  // Room for more: a consumer that keeps batches makes the ring grow.
  const SlotLayout layout =
      make_layout(options().outputs, options().batch_size,
                  std::clamp(kGrowth * slots, kLeastRoom, kMaxSlots), shared_.ring->file_bytes());
  const std::uint64_t needed = layout.fixed_bytes * slots;
  const std::uint64_t available = memory_share();
  const std::uint64_t given = options().max_memory;
  if (needed > (given > 0 ? std::min(given, available) : available)) {
    throw Error(ErrorCode::kResourceExhausted, shared_.spec(), "batch memory",
                std::to_string(slots) + " batches of " + std::to_string(layout.fixed_bytes) +
                    " bytes need " + std::to_string(needed) + " bytes, available are " +
                    std::to_string(available) +
                    (given > 0 ? ", max_memory is " + std::to_string(given) : ""),
                "use a smaller batch_size or prefetch");
  }
  const std::uint64_t budget = std::max(needed, given > 0 ? given : available / 2);
  shared_.control->layout = layout;
  shared_.control->slots.store(static_cast<std::uint32_t>(slots));
  shared_.control->timeout_ticks =
      static_cast<std::uint64_t>((options().sample_timeout_ms + kTickMs - 1) / kTickMs);
  shared_.ring->open(layout, slots, budget);
  shared_.stats().slots.store(static_cast<std::uint32_t>(slots));
  shared_.stats().slot_bytes.store(layout.fixed_bytes);
}

void Engine::warn_of_oddities() const {
  if (delivering_.schedule.batches() == 0) {
    warn_once("this rank has " + std::to_string(delivering_.schedule.rows()) +
              " samples in an epoch and so no batch of " + std::to_string(options().batch_size));
  }
  if (options().bad_samples == BadSamples::kSkip && options().world_size > 1) {
    warn_once(
        "bad samples are skipped: ranks may get batches of different size; use kReplace "
        "where they must stay in step");
  }
}

void Engine::try_pinning() {
  pinning_tried_ = true;
  if (!options().pin_memory) return;
  device_ = current_device();
  if (const std::string reason = device_->unavailable(); !reason.empty()) {
    warn_once("pin_memory is on, but batches are not page-locked: " + reason);
    device_.reset();
    return;
  }
  for (std::uint32_t slot = 0; slot < shared_.ring->slots() && device_; ++slot) prepare(slot);
}

}  // namespace shardmill::internal
