// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/engine.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "loader/internal/batch_outputs.h"
#include "loader/internal/claims.h"
#include "loader/internal/drop_rows.h"
#include "loader/internal/read_stats.h"
#include "loader/internal/warn.h"
#include "loader/system/futex.h"

namespace shardmill::internal {

namespace {

constexpr long kWaitMs = 100;  // between two looks at the nursery while waiting
constexpr std::int64_t kLeaseWarningMs = 1000;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

// An error as people read it: with the number of the worker that met it.
ErrorInfo error_of(const RowErrorCell& cell) {
  ErrorInfo info = cell.error.load();
  if (cell.worker >= 0) info.cause += " (worker " + std::to_string(cell.worker) + ")";
  return info;
}

}  // namespace

// Makes a slot ready for its next batch: memory that one huge batch took goes back, and pages are
// locked if that is wanted.
void Engine::prepare(std::uint32_t slot) {
  if (shared_.control->layout.arenas > 0) {
    const SlotControl control = shared_.control.slot(slot);
    std::uint64_t used[kMaxArenas];
    for (std::size_t i = 0; i < kMaxArenas; ++i) {
      used[i] =
          std::max(control.header->arena_used[i].load(), control.header->packed_used[i].load());
    }
    shared_.ring->trim(slot, used);
  }
  if (!device_) return;
  const std::string reason = shared_.ring->pin(slot, device_);
  if (reason.empty()) return;
  warn_once("cannot page-lock batch memory: " + reason + "; going on with ordinary memory");
  device_.reset();
}

// Publishes batches, also of the next epoch, while fewer than `prefetch` are in flight and slots
// are free.
void Engine::publish_ahead() {
  while (in_flight_.size() < static_cast<std::size_t>(options().prefetch)) {
    if (publishing_.at_end()) publishing_ = planner_->start_of(publishing_.epoch + 1);
    if (publishing_.at_end()) return;  // epochs without any batch
    const std::optional<std::uint32_t> slot = shared_.ring->free_slot();
    if (!slot) return;
    prepare(*slot);
    publish(shared_.control, *slot, planner_->batch_at(publishing_));
    in_flight_.push_back({*slot, publishing_.epoch, publishing_.batch});
    ++publishing_.batch;
  }
}

// Returns a slot although all are lent: a new one, or one that is let go in time.
std::uint32_t Engine::wait_for_slot() {
  if (const auto slot = shared_.ring->free_slot()) return *slot;
  if (const auto slot = shared_.ring->grow()) {
    shared_.control->slots.store(static_cast<std::uint32_t>(shared_.ring->slots()));
    shared_.stats().slots.store(static_cast<std::uint32_t>(shared_.ring->slots()));
    return *slot;
  }
  const std::int64_t limit = options().lease_timeout_ms;
  const std::int64_t first = std::min(limit, kLeaseWarningMs);
  if (!shared_.ring->wait_for_free(first)) {
    warn_once("all " + std::to_string(shared_.ring->slots()) +
              " batches are still held by the training program; next() waits for one to be let go");
    shared_.ring->wait_for_free(limit - first);
  }
  if (const auto slot = shared_.ring->free_slot()) return *slot;
  throw Error(ErrorCode::kResourceExhausted, shared_.spec(), "batch memory",
              "all " + std::to_string(shared_.ring->slots()) +
                  " batches are held by the training program and none was let go within "
                  "lease_timeout_ms = " +
                  std::to_string(limit),
              "drop batches and tensors made of them, or copy what you keep");
}

bool Engine::next(Batch& batch) {
  check_usable();
  batch = Batch();
  if (!pinning_tried_) try_pinning();
  if (pacer_) pacer_->batch_asked();
  while (!delivering_.at_end()) {
    std::uint32_t slot = 0;
    if (crew_) {
      slot = take_prepared();
    } else {
      slot = produce(planner_->batch_at(delivering_));
    }
    ++delivering_.batch;
    const bool any = deliver(slot, batch);
    if (crew_) publish_ahead();
    if (pacer_) pacer_->batch_delivered();
    if (any) return true;
  }
  return false;
}

// Waits for the oldest batch in flight.
std::uint32_t Engine::take_prepared() {
  publish_ahead();
  if (in_flight_.empty()) {
    shared_.ring->take_back(wait_for_slot());
    publish_ahead();
  }
  const std::uint32_t slot = in_flight_.front().slot;
  wait_for_batch(slot);
  in_flight_.pop_front();
  shared_.control->oldest.fetch_add(1);
  return slot;
}

// Makes a batch of `rows` in this process.
std::uint32_t Engine::produce(const std::vector<PlanEntry>& rows) {
  const std::uint32_t slot = wait_for_slot();
  prepare(slot);
  const SlotControl control = shared_.control.slot(slot);
  control.header->rows = static_cast<std::uint32_t>(rows.size());
  control.reset_arenas();
  const std::uint64_t begin = now_ns();  // the consumer waits for all of it
  for (std::size_t row = 0; row < rows.size(); ++row) {
    control.plan[row] = rows[row];
    control.failed[row].store(0, std::memory_order_relaxed);
    producer_->produce(control, shared_.ring->memory(slot), row, shared_.stats().rows[0]);
  }
  producer_->pack(control, shared_.ring->memory(slot));
  add(shared_.stats().wait_ns, now_ns() - begin);
  return slot;
}

// Waits for the workers. What is thrown meanwhile ends the run: the workers are stopped at once.
template <class Wait>
void Engine::guarded(const Wait& wait) {
  try {
    wait();
  } catch (...) {
    failed_ = true;
    pacer_.reset();
    crew_.reset();
    throw;
  }
}

void Engine::wait_for_batch(std::uint32_t slot) {
  const std::uint64_t begin = now_ns();
  guarded([&] {
    crew_->check_reports();
    while (true) {
      const std::uint32_t seen = shared_.control->ready.load();
      if (complete(shared_.control, slot)) break;
      crew_->check_alive();
      futex_wait(shared_.control->ready, seen, kWaitMs);
    }
  });
  add(shared_.stats().wait_ns, now_ns() - begin);
}

// Lends the batch in `slot`. False if all of its rows were skipped.
bool Engine::deliver(std::uint32_t slot, Batch& batch) {
  const SlotControl control = shared_.control.slot(slot);
  auto lease = std::make_shared<SlotLease>(shared_.ring, slot);  // gives it back whatever happens
  const SlotMemory memory = shared_.ring->memory(slot);
  if (settle_bad_samples(control)) drop_bad_rows(control, memory, options().outputs, places_);
  const std::size_t rows = control.header->rows;
  if (rows == 0) return false;
  batch.epoch_ = delivering_.epoch;
  batch.index_ = delivering_.schedule.index(delivering_.batch - 1);
  for (std::size_t row = 0; row < rows; ++row) {
    batch.samples_.push_back(control.sample(row));
    batch.positions_.push_back(control.plan[row].position);
    batch.valid_.push_back(control.plan[row].position < delivering_.schedule.total);
  }
  batch.outputs_ = batch_outputs(options().outputs, places_, control, memory, rows);
  batch.lease_ = std::move(lease);
  add(shared_.stats().batches, 1);
  shared_.stats().in_flight.store(static_cast<std::uint32_t>(in_flight_.size()),
                                  std::memory_order_relaxed);
  shared_.stats().epoch.store(batch.epoch_, std::memory_order_relaxed);
  add(shared_.stats().samples, rows);
  return true;
}

// Deals with the samples that could not be delivered, in row order. Returns true if rows are to be
// dropped.
bool Engine::settle_bad_samples(const SlotControl& control) {
  bool dropped = false;
  for (std::size_t row = 0; row < control.header->rows; ++row) {
    const std::size_t failed = control.failed[row].load(std::memory_order_relaxed);
    if (failed == 0) continue;
    const PlanEntry& entry = control.plan[row];
    const bool good = control.status[row].load() == RowStatus::kGood;
    if (!good && options().bad_samples == BadSamples::kFail) {
      throw Error(error_of(control.error(row, failed - 1)));
    }
    for (std::size_t i = 0; i < failed; ++i) {
      ledger_->add({entry.epoch, entry.position, entry.sample[i], good || i + 1 < failed,
                    error_of(control.error(row, i))});
    }
    if (!good && options().bad_samples == BadSamples::kReplace) {
      ErrorInfo info = error_of(control.error(row, failed - 1));
      info.cause += "; so were the " + std::to_string(failed - 1) + " samples tried before it";
      throw Error(info);
    }
    dropped |= !good;
  }
  return dropped;
}

// Gives up all batches in flight and waits until nobody works on them.
void Engine::drain() {
  shared_.control->oldest.store(shared_.control->published.load());
  for (const InFlight& batch : in_flight_) {
    guarded([&] {
      while (!abandon(shared_.control, batch.slot)) {
        crew_->check_alive();
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    });
    shared_.ring->take_back(batch.slot);
  }
  in_flight_.clear();
}

void Engine::check_usable() const {
  if (!failed_) return;
  throw Error(ErrorCode::kInternal, shared_.spec(), {}, "the loader has failed before",
              "construct a new one");
}

void Engine::start_epoch(std::uint64_t wanted) {
  check_usable();
  if (delivering_.at_start_of(wanted)) return;  // also behind resume()
  const bool prepared = in_flight_.empty()
                            ? publishing_.at_start_of(wanted)
                            : in_flight_.front().epoch == wanted && in_flight_.front().batch == 0;
  if (prepared) {
    delivering_ = planner_->start_of(wanted);
    ledger_->begin_epoch(delivering_.schedule.delivered_rows());
    if (crew_) crew_->new_epoch();
  } else {
    set_place(planner_->start_of(wanted));
  }
  if (crew_) publish_ahead();
}

// Gives up what was prepared and goes on at `place`.
void Engine::set_place(const Place& place) {
  if (crew_) {
    drain();
    crew_->new_epoch();
  }
  delivering_ = publishing_ = place;
  ledger_->begin_epoch(delivering_.schedule.delivered_rows());
}

void Engine::resume(std::string_view state) {
  check_usable();
  set_place(planner_->resume(state, seed_given_));
  if (crew_) publish_ahead();
}

Batch Engine::replay(std::uint64_t epoch, std::uint64_t position) {
  if (!replayer_) {
    LoaderOptions single = options();
    single.num_workers = 0;
    single.prefetch = kAuto;
    single.sample_timeout_ms = 0;
    single.batch_size = 1;
    single.pin_memory = false;
    single.bad_sample_log.clear();
    if (single.bad_samples == BadSamples::kSkip) single.bad_samples = BadSamples::kFail;
    replayer_ =
        std::make_unique<Engine>(shared_.specs, shared_.weights, datasets(), std::move(single));
  }
  Engine& one = *replayer_;
  one.shared_.options.seed = *options().seed;
  one.delivering_.epoch = epoch;
  one.delivering_.batch = 1;
  one.ledger_->begin_epoch(kSubstitutes + 1);
  const std::uint64_t lanes =
      epoch == delivering_.epoch ? delivering_.lanes : planner_->start_of(epoch).lanes;
  Batch batch;
  one.deliver(one.produce(one.planner_->row_at(epoch, lanes, position)), batch);
  return batch;
}

bool Engine::ready() const {
  return !delivering_.at_end() && !in_flight_.empty() &&
         complete(shared_.control, in_flight_.front().slot);
}

LoaderStats Engine::stats() const {
  LoaderStats stats = read_stats(shared_.stats());
  read_deaths(*shared_.control, stats);
  stats.bad_samples = ledger_->total();
  stats.pinned = device_ != nullptr && pinning_tried_;
  return stats;
}

}  // namespace shardmill::internal
