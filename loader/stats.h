// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/decode/image.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace shardmill {

/// What holds loading up.
enum class Verdict : std::uint8_t {
  kUnknown,   ///< Too little was loaded to say.
  kConsumer,  ///< Nothing: the training program takes batches more slowly than they could come.
  kDecode,    ///< Decoding, copying and user functions: more CPUs, or smaller stored images, help.
  kRead,      ///< Storage: another format, block shuffle or faster disks help.
};

/// Returns "unknown", "consumer", "decode" or "read".
std::string_view verdict_name(Verdict verdict) noexcept;

/// What one worker has done since the loader was constructed. Times are wall-clock nanoseconds.
struct WorkerStats {
  std::int32_t pid = 0;  ///< 0: not running at present.
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;       ///< Stored bytes read.
  std::uint64_t read_ns = 0;     ///< Time in readers.
  std::uint64_t produce_ns = 0;  ///< Time decoding, copying and in functions of outputs.
  std::uint64_t idle_ns = 0;     ///< Time waiting for work.
  std::uint64_t cpu_ns = 0;      ///< CPU time of the present process or thread, now and then.
  std::uint64_t faults = 0;      ///< Its page faults and reads that went to the disk, likewise.
  std::uint64_t slowest_ns = 0;  ///< Longest time on one sample, and which that was.
  std::uint64_t slowest_sample = 0;
  std::uint64_t truncated = 0;  ///< Samples with images that were cut off; see LoaderOptions.
};

/// One worker that died.
struct WorkerDeath {
  std::int32_t pid = 0;
  int wait_status = 0;      ///< As waitpid(2) gave it.
  bool timed_out = false;   ///< Killed after sample_timeout_ms.
  bool had_sample = false;  ///< It was working on `sample`.
  std::uint64_t sample = 0;
  std::uint64_t max_rss_bytes = 0;
};

/// What a loader has done since it was constructed. Times are wall-clock nanoseconds.
struct LoaderStats {
  std::vector<WorkerStats> workers;       ///< With 0 workers: the calling process alone.
  int wanted_workers = 0;                 ///< That ought to run now.
  std::uint64_t batches = 0;              ///< Delivered.
  std::uint64_t samples = 0;              ///< Delivered.
  std::uint64_t wait_ns = 0;              ///< Time next() waited for a batch.
  std::uint64_t total_ns = 0;             ///< Time since construction.
  std::uint64_t deaths = 0;               ///< Workers that died.
  std::uint64_t redone = 0;               ///< Samples done again after a death.
  std::uint64_t bad_samples = 0;          ///< Skipped or replaced.
  std::uint64_t truncated = 0;            ///< Samples made, also ahead, with images cut off.
  std::uint64_t slots = 0;                ///< Batches that there is memory for.
  std::uint64_t memory_bytes = 0;         ///< Memory of those, without values of any size.
  DecodeMode decode = DecodeMode::kFast;  ///< How images were decoded: decode_mode_name() has it.
  bool pinned = false;                    ///< Batches lie in page-locked memory.
  Verdict verdict = Verdict::kUnknown;
  std::vector<WorkerDeath> last_deaths;  ///< At most 64, oldest first.
};

}  // namespace shardmill
