// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace shardmill::internal {

// The statistics file: a memory file called "shardmill-stats" that a loader keeps open, so that
// `shardmill top` finds it below /proc/PID/fd. Who reads it checks magic and version first. All
// counts are since construction, all times wall-clock nanoseconds unless said otherwise. Each row
// is written by one worker alone, all else by the trainer.

inline constexpr std::size_t kMaxWorkers = 256;

/// One worker's row.
struct alignas(64) StatsRow {
  std::atomic<std::int32_t> pid;  ///< 0: none at present.
  std::atomic<std::uint64_t> samples;
  std::atomic<std::uint64_t> bytes;       ///< Stored bytes read.
  std::atomic<std::uint64_t> read_ns;     ///< In readers.
  std::atomic<std::uint64_t> produce_ns;  ///< Decoding, copying, in user functions.
  std::atomic<std::uint64_t> idle_ns;     ///< Waiting for work.
  std::atomic<std::uint64_t> cpu_ns;      ///< CPU time, of the present worker, now and then.
  std::atomic<std::uint64_t> faults;      ///< Major faults and block reads, likewise.
  std::atomic<std::uint64_t> sample;      ///< Being made, or last made.
  std::atomic<std::uint64_t> slowest_ns;
  std::atomic<std::uint64_t> slowest_sample;
  std::atomic<std::uint64_t> truncated;  ///< Samples with images that were cut off.
};

struct StatsFile {
  static constexpr std::uint64_t kMagic = 0x53544154534D4853;  // "SHMSTATS"
  static constexpr std::uint32_t kVersion = 2;

  std::uint64_t magic;
  std::uint32_t version;
  std::int32_t pid;        ///< The trainer.
  std::uint64_t start_ns;  ///< CLOCK_MONOTONIC at construction.
  char dataset[512];       ///< What is loaded; cut, NUL at the end.
  std::uint32_t batch_size;
  std::uint32_t rank;
  std::uint32_t world_size;
  std::uint32_t prefetch;
  std::uint32_t decode;                       ///< The DecodeMode, as a number.
  std::atomic<std::uint32_t> workers;         ///< Rows in use.
  std::atomic<std::uint32_t> wanted_workers;  ///< Workers that ought to run now.
  std::atomic<std::uint32_t> slots;           ///< Batches that there is memory for.
  std::atomic<std::uint32_t> in_flight;       ///< Batches being prepared or ready.
  std::atomic<std::uint64_t> slot_bytes;      ///< Memory of one, without values of any size.
  std::atomic<std::uint64_t> epoch;
  std::atomic<std::uint64_t> batches;  ///< Delivered.
  std::atomic<std::uint64_t> samples;  ///< Delivered.
  std::atomic<std::uint64_t> wait_ns;  ///< The consumer's time waiting for batches.
  StatsRow rows[kMaxWorkers];
};

/// Says that `count` workers ought to run from now on.
inline void announce_workers(StatsFile& stats, int count) noexcept {
  const auto wanted = static_cast<std::uint32_t>(count);
  stats.wanted_workers.store(wanted);
  if (stats.workers.load() < wanted) stats.workers.store(wanted);
}

/// Adds to a count that this process alone writes: no locked instruction.
inline void add(std::atomic<std::uint64_t>& count, std::uint64_t n) noexcept {
  count.store(count.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

}  // namespace shardmill::internal
