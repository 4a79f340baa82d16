// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/error.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "loader/internal/stats_file.h"

namespace shardmill::internal {

// The words that trainer, nursery and workers share. docs/loader.md explains the protocol.

inline constexpr std::size_t kMaxSlots = 128;  // batches between publishing and freeing
inline constexpr std::size_t kMaxArenas = 16;  // outputs with values of any size
inline constexpr std::size_t kMaxDeaths = 64;  // deaths remembered with details

/// Values of a position's owner word; from kFirstSerial on it is a worker's serial number, which
/// is never used again.
inline constexpr std::uint32_t kClosed = 0;
inline constexpr std::uint32_t kFree = 1;
inline constexpr std::uint32_t kNursery = 2;
inline constexpr std::uint32_t kFirstSerial = 16;

/// How a row ended.
enum class RowStatus : std::uint8_t { kPending, kGood, kBad };

/// Others tried where a sample is bad and BadSamples::kReplace.
inline constexpr std::size_t kSubstitutes = 3;

/// An ErrorInfo on its way between processes; long texts are cut, the cause's last.
template <std::size_t kTextBytes>
struct BasicErrorCell {
  std::uint32_t code;
  std::uint32_t lengths[4];
  char text[kTextBytes];

  void store(const ErrorInfo& info) noexcept;
  ErrorInfo load() const;
};
using ErrorCell = BasicErrorCell<4076>;

/// The error of one sample that was tried, and the worker that met it.
struct RowErrorCell {
  BasicErrorCell<1000> error;
  std::int32_t worker;  ///< Its row; -1: the trainer, or it died.
};

/// What one position of a slot is to become.
struct PlanEntry {
  std::uint64_t seed;
  std::uint64_t epoch;
  std::uint64_t position;                  ///< Global, in the epoch.
  std::uint64_t sample[1 + kSubstitutes];  ///< The one meant, and what may take its place.
  std::uint32_t substitutes;               ///< How many of them may.
};

/// Where a value lies in an arena, or a key among the keys.
struct ArenaRange {
  std::uint64_t begin;
  std::uint64_t length;
};

struct alignas(64) SlotHeader {
  std::atomic<std::uint32_t> rows;  ///< Rows of the batch that the slot holds.
  alignas(64) std::atomic<std::uint32_t> seal_owner;
  std::atomic<std::uint32_t> sealed;
  std::atomic<std::uint64_t> arena_used[kMaxArenas];
  std::atomic<std::uint64_t> packed_used[kMaxArenas];  ///< Of rows that the seal padded.
  std::atomic<std::uint64_t> keys_used;
};

/// Pointers into one slot's control words. A value; cheap to make.
struct SlotControl {
  SlotHeader* header;
  std::atomic<std::uint64_t>* done;   ///< One bit a row.
  std::atomic<std::uint32_t>* owner;  ///< One a row.
  PlanEntry* plan;                    ///< One a row.
  std::atomic<std::uint64_t>* ahead;  ///< One a row: its sample, for whoever looks ahead.
  ArenaRange* ranges;                 ///< Rows × kMaxArenas.
  std::atomic<RowStatus>* status;     ///< One a row.
  std::uint8_t* tries;                ///< One a row: deaths that its present sample caused.
  std::atomic<std::uint8_t>* failed;  ///< One a row: samples that were tried and are bad.
  RowErrorCell* errors;               ///< 1 + kSubstitutes a row; touched by errors only.

  SlotControl(std::byte* base, std::size_t batch_size) noexcept;
  /// Returns how many bytes a slot's words take.
  static std::size_t bytes(std::size_t batch_size) noexcept;

  /// Returns the sample that row `row` is to be made of now.
  std::uint64_t sample(std::size_t row) const noexcept {
    return plan[row].sample[std::min<std::size_t>(failed[row].load(), plan[row].substitutes)];
  }
  /// Empties arenas and keys, for the next batch.
  void reset_arenas() const noexcept {
    for (auto& used : header->arena_used) used.store(0, std::memory_order_relaxed);
    for (auto& used : header->packed_used) used.store(0, std::memory_order_relaxed);
    header->keys_used.store(0, std::memory_order_relaxed);
  }
  RowErrorCell& error(std::size_t row, std::size_t tried) const noexcept {
    return errors[row * (1 + kSubstitutes) + tried];
  }
  /// Records that the row's present sample is bad. True if another one may take its place; else
  /// the row's status is bad now. For the row's holder.
  bool reject_sample(std::size_t row, const ErrorInfo& error, int worker) const noexcept;
  bool done_bit(std::size_t row) const noexcept { return done[row / 64].load() >> (row % 64) & 1; }
  /// True if every row is done. Exact: done bits are set once and cleared by publishing only.
  bool rows_done() const noexcept;
};

/// What a worker tells about itself: its own cache line.
struct alignas(64) WorkerRow {
  std::atomic<std::uint32_t> serial;
  std::atomic<std::int32_t> pid;
  std::atomic<std::uint64_t> claims;  ///< Claims made.
  std::atomic<std::uint32_t> busy;    ///< 1 while it works on one.
};

struct DeathRecord {
  std::uint32_t serial;
  std::int32_t pid;
  std::int32_t wait_status;
  std::uint32_t timed_out;  ///< 1: killed by the nursery after sample_timeout_ms.
  std::uint32_t blamed;     ///< 1: the death made a sample bad.
  std::uint32_t had_sample;
  std::uint64_t sample;  ///< Number of the sample it was working on.
  std::uint64_t max_rss_kib;
};

enum class ScoutState : std::uint32_t { kRunning, kDone, kFailed };

/// Sizes that follow from the dataset and the options; written by the trainer before it orders
/// workers, read-only from then on.
struct SlotLayout {
  std::uint64_t stride;       ///< Bytes from slot to slot in the slot file.
  std::uint64_t fixed_bytes;  ///< The part with rows of one size and offsets.
  std::uint64_t arena_bytes;  ///< Capacity of each arena, and packed area.
  std::uint64_t key_bytes;    ///< Capacity of the samples' keys.
  std::uint32_t arenas;       ///< Outputs with values of any size.
  std::uint32_t sealed;       ///< 1: the seal packs some of them.
  std::uint32_t batch_size;
};

struct Control {
  alignas(64) std::atomic<std::uint32_t> work;    ///< Futex: there may be work.
  alignas(64) std::atomic<std::uint32_t> ready;   ///< Futex: a batch may be complete.
  alignas(64) std::atomic<std::uint64_t> oldest;  ///< Serial number of the oldest batch in flight.
  std::atomic<std::uint64_t> published;           ///< Serial number behind the newest one.
  std::atomic<std::uint32_t> slot_of[kMaxSlots];  ///< Slot of batch b, at b % kMaxSlots.
  alignas(64) std::atomic<std::uint32_t> stop;
  std::atomic<std::uint32_t> wanted_workers;
  std::atomic<std::uint32_t> slots;   ///< Slots in use; only grows.
  std::atomic<std::uint64_t> deaths;  ///< Deaths so far; details of death d at d % kMaxDeaths.
  std::atomic<std::uint64_t> redone;
  std::atomic<std::uint32_t> fatal;  ///< 1: `fatal_error` ends the run.
  std::atomic<ScoutState> scout;
  std::atomic<std::int32_t> scout_pid;
  std::uint64_t timeout_ticks;  ///< Nursery ticks allowed on a sample; 0: any.
  SlotLayout layout;
  DeathRecord death_log[kMaxDeaths];
  ErrorCell fatal_error;
  ErrorCell scout_error;
  alignas(64) WorkerRow rows[kMaxWorkers];
#ifdef SHARDMILL_PROTOCOL_POINTS
  std::uint64_t kill_one_in;    ///< At each point die with probability 1 / this; 0: never.
  std::uint32_t kill_at_point;  ///< Die at this point, one time in 16; 0: never.
  std::uint32_t delays;         ///< 1: yield and sleep at random points.
#endif
};

// The kernel zeroes the file, and zero must be a valid start for all of these.
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// The control file: Control, then the slots' words.
class ControlView {
 public:
  ControlView() = default;
  ControlView(std::byte* base, std::size_t batch_size) noexcept
      : base_(base), batch_size_(batch_size) {}
  static std::size_t bytes(std::size_t batch_size) noexcept;

  Control& operator*() const noexcept { return *reinterpret_cast<Control*>(base_); }
  Control* operator->() const noexcept { return reinterpret_cast<Control*>(base_); }
  SlotControl slot(std::size_t s) const noexcept;
  std::size_t batch_size() const noexcept { return batch_size_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t batch_size_ = 0;
};

#ifdef SHARDMILL_PROTOCOL_POINTS
/// A step of the protocol, numbered from 1, at which a test may kill or delay this process.
void protocol_point(Control& control, std::uint32_t point) noexcept;
#define SHARDMILL_POINT(control, point) ::shardmill::internal::protocol_point(control, point)
#else
#define SHARDMILL_POINT(control, point) static_cast<void>(control)
#endif

}  // namespace shardmill::internal
