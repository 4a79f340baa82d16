// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "loader/internal/control.h"

namespace shardmill::internal {

// The claim protocol: who does which row, and what happens when he dies. The same code runs in
// trainer, workers and nursery; it touches nothing but the control file.

/// One row that its holder alone works on.
struct Claim {
  std::uint32_t slot = 0;
  std::uint32_t row = 0;
};

/// Makes the slot's rows available as batch number `control->published`. Trainer only; the slot
/// must be free. The order of the steps matters, because the nursery may be looking.
void publish(const ControlView& control, std::uint32_t slot, std::span<const PlanEntry> plan);

/// True if every row is done and, where there are ragged outputs, sealed.
bool complete(const ControlView& control, std::uint32_t slot);

/// Takes back the rows that nobody has begun; returns true once none is being worked on. Trainer
/// only; called until it returns true before an undelivered slot is used again.
bool abandon(const ControlView& control, std::uint32_t slot);

/// Finds and claims rows for one worker.
class Claimer {
 public:
  Claimer(const ControlView& control, std::uint32_t serial) noexcept
      : control_(control), serial_(serial) {}

  /// Claims the next free row of the oldest unfinished batch. Nothing: there is none; wait() then
  /// sleeps until there may be.
  std::optional<Claim> claim() noexcept;
  void wait(long timeout_ms) noexcept;

  /// Says that the claimed row has its final status; wakes the trainer if the batch is complete.
  void finish(const Claim& claim) noexcept;

  /// Packs a ragged slot's values once all rows are done; called by finish() and claim() through
  /// `pack`, which may run twice for one batch (after a death) and must then write the same.
  std::function<void(std::uint32_t slot)> pack;

 private:
  void try_seal(std::uint32_t slot) noexcept;

  const ControlView control_;
  const std::uint32_t serial_;
  std::uint32_t seen_ = ~std::uint32_t{0};  // value of `work` at the last fresh start
  std::uint64_t batch_ = 0;                 // where the search goes on
  std::uint32_t row_ = 0;
};

/// What recover() found unfinished.
struct Recovered {
  std::optional<std::uint64_t> sample;
  bool blamed = false;  ///< The sample is bad; another one takes its place, or the row is bad.
};

/// Says what a worker's death over `sample`, in row `claim`, was.
using DescribeDeath = std::function<ErrorInfo(const Claim& claim, std::uint64_t sample)>;

/// Gives the unfinished rows of worker `serial` to others. A row that has killed before (or any,
/// if `bad_at_once`) loses its sample, with the error that `describe` makes. Nursery only, and only
/// after waitpid() has returned that worker: no instruction of it can run any more.
Recovered recover(const ControlView& control, std::uint32_t serial, bool bad_at_once,
                  const DescribeDeath& describe);

/// Wakes workers and trainer. Follows every recover(): it makes up for a wake that the dead worker
/// owed, and sends the others to the freed rows.
void wake_all(const ControlView& control) noexcept;

}  // namespace shardmill::internal
