// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/worker.h"

#include <unistd.h>

#include <chrono>

#include "loader/internal/claims.h"
#include "loader/internal/infer.h"
#include "loader/internal/nursery.h"
#include "loader/internal/producer.h"
#include "loader/system/child.h"
#include "loader/system/futex.h"

namespace shardmill::internal {

namespace {

constexpr long kIdleMs = 1000;  // longest sleep before `stop` is looked at again

// Starts the disk on the sample at the same row of the next batch, which this or another worker
// will want soon. The entry may be rewritten meanwhile; then the advice is for naught.
void look_ahead(const ControlView& control, const Claim& claim, Producer& producer) {
  const std::uint64_t oldest = control->oldest.load(std::memory_order_relaxed);
  const std::uint64_t published = control->published.load(std::memory_order_relaxed);
  for (std::uint64_t batch = oldest; batch + 1 < published; ++batch) {
    if (control->slot_of[batch % kMaxSlots].load(std::memory_order_relaxed) != claim.slot) continue;
    const SlotControl next = control.slot(control->slot_of[(batch + 1) % kMaxSlots].load());
    if (claim.row < next.header->rows.load()) producer.look_ahead(next.ahead[claim.row].load());
    return;
  }
}

}  // namespace

void work(Shared& shared, std::uint32_t serial, std::size_t row,
          const std::function<bool()>& leave) {
  const ControlView control = shared.control;
  WorkerRow& self = control->rows[row];
  StatsRow& stats = shared.stats().rows[row];
  stats.pid.store(gettid());
  Producer producer(shared.corpus, shared.options, static_cast<int>(row));
  Claimer claimer(control, serial);
  claimer.pack = [&](std::uint32_t slot) {
    producer.pack(control.slot(slot), shared.ring->memory(slot));
  };
  while (control->stop.load(std::memory_order_relaxed) == 0 && !leave()) {
    const std::optional<Claim> claim = claimer.claim();
    if (!claim) {
      const auto begin = std::chrono::steady_clock::now();
      claimer.wait(kIdleMs);
      const std::chrono::nanoseconds idle = std::chrono::steady_clock::now() - begin;
      add(stats.idle_ns, static_cast<std::uint64_t>(idle.count()));
      continue;
    }
    add(self.claims, 1);
    self.busy.store(1, std::memory_order_relaxed);
    look_ahead(control, *claim, producer);
    const SlotControl slot = control.slot(claim->slot);
    // The others take the rows between.
    const std::size_t next = claim->row + shared.stats().wanted_workers.load();
    if (next < slot.header->rows.load()) producer.prefetch(slot.ahead[next].load());
    producer.produce(slot, shared.ring->memory(claim->slot), claim->row, stats);
    claimer.finish(*claim);
    self.busy.store(0, std::memory_order_relaxed);
  }
  stats.pid.store(0);
}

void run_worker(Shared& shared, std::uint32_t serial, std::size_t row, pid_t nursery) {
  die_with_parent(nursery);
  raise_oom_score();
  prefer_long_turns();
  shared.ring->file().dont_fork();  // children of user code never see the slots
  // One too many leaves of its own accord between two rows: no death, nothing to redo.
  work(shared, serial, row,
       [&shared, row] { return row >= shared.control->wanted_workers.load(); });
  _exit(0);
}

void run_scout(Shared& shared, pid_t nursery) {
  die_with_parent(nursery);
  const ControlView control = shared.control;
  ScoutState state = ScoutState::kFailed;
  try {
    const Corpus corpus = open_corpus(shared);
    CorpusReader reader(corpus);
    resolve_outputs(reader, shared.options);
    write_index(shared, corpus);
    state = ScoutState::kDone;
  } catch (const Error& error) {
    control->scout_error.store(error.info());
  } catch (const std::exception& error) {
    control->scout_error.store({ErrorCode::kInternal, shared.spec(), {}, error.what(), {}});
  }
  control->scout.store(state);
  futex_bump(control->ready);
  _exit(0);
}

}  // namespace shardmill::internal
