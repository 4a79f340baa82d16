// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace shardmill {

/// What one worker has done since the loader was constructed.
struct WorkerStats {
  std::int32_t pid = 0;
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;       ///< Stored bytes read.
  std::uint64_t read_ns = 0;     ///< Time in readers.
  std::uint64_t produce_ns = 0;  ///< Time decoding and copying.
  std::uint64_t idle_ns = 0;     ///< Time waiting for work.
};

/// What a loader has done since it was constructed. Times are wall-clock nanoseconds.
struct LoaderStats {
  std::vector<WorkerStats> workers;  ///< With 0 workers: the calling process alone.
  std::uint64_t batches = 0;         ///< Delivered.
  std::uint64_t samples = 0;         ///< Delivered.
  std::uint64_t wait_ns = 0;         ///< Time next() waited for a batch.
  std::uint64_t deaths = 0;          ///< Workers that died.
  std::uint64_t redone = 0;          ///< Samples done again after a death.
  std::uint64_t bad_samples = 0;     ///< Skipped or replaced.
  bool pinned = false;               ///< Batches lie in page-locked memory.
};

}  // namespace shardmill
