// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/reader.h>
#include <shardmill/loader/decode/image.h>
#include <shardmill/loader/outputs.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill {

/// In what order an epoch visits the samples.
enum class Shuffle : std::uint8_t {
  kNone,   ///< In dataset order.
  kFull,   ///< A permutation of all samples that depends on seed and epoch alone; O(1) memory.
  kBlock,  ///< Blocks of neighbouring samples in random order, mixed within a window of blocks:
           ///< reads stay near each other, which slow disks need. See block_size.
};

/// Returns "none", "full" or "block".
std::string_view shuffle_name(Shuffle shuffle) noexcept;

/// What workers are.
enum class Workers : std::uint8_t {
  kProcesses,  ///< A crash, a leak or a lock in one of them harms nobody: the default.
  kThreads,    ///< No fork: for programs that cannot have one, and where memory maps are scarce. A
               ///< crash ends the program; sample_timeout_ms cannot be enforced; functions of
               ///< computed outputs run beside each other in this process. Refused for formats
               ///< whose library allows no threads.
};

/// What happens where the ranks' shares of an epoch are not equal.
enum class Uneven : std::uint8_t {
  kPad,    ///< The last rows are samples of the epoch's beginning again; Batch::valid() marks them.
  kDrop,   ///< The few samples that do not go round are left out; other ones in every epoch.
  kExact,  ///< Every sample once; ranks differ by one row, and so perhaps by one batch.
};

/// What happens to a sample that cannot be read or decoded, takes longer than sample_timeout_ms or
/// kills its worker twice.
enum class BadSamples : std::uint8_t {
  kFail,     ///< next() throws the error when the batch is due.
  kSkip,     ///< The batch is shorter; no sample moves to another batch. A batch with none left is
             ///< left out.
  kReplace,  ///< Another sample of the dataset, chosen by (seed, epoch, position), takes its place:
             ///< batches keep their size and ranks stay in step.
};

/// `num_workers`: as many as pay, found out while loading; `max_workers`: this rank's share of the
/// machine's CPUs, see cpu_share(); `prefetch`: 4, more for small batches
/// and many workers; `rank`, `world_size`: as
/// the launcher says.
inline constexpr int kAuto = -1;

/// How to load. Plain values; a Loader checks them once, at construction, and throws
/// kInvalidArgument naming option and value.
struct LoaderOptions {
  /// What a batch holds. Empty: every field of the first sample: `cls` as class numbers, arrays
  /// as arrays, all else as stored bytes (images: whichever image field a sample has first).
  std::vector<Output> outputs = {};

  // What training sees.
  std::size_t batch_size = 1;        ///< Samples in a batch; at least 1.
  Shuffle shuffle = Shuffle::kNone;  ///< Order depends on seed and epoch only.
  /// None: a different one for every loader; with several ranks, which must agree, 0.
  std::optional<std::uint64_t> seed = {};
  bool drop_last = false;                 ///< Drop a last batch smaller than `batch_size`.
  DecodeMode decode = DecodeMode::kFast;  ///< kExact: full-size decoding, then resize.
  bool apply_orientation = true;          ///< False: images as stored, whatever EXIF says.
  /// Images that were cut off are shown as far as they go, and counted in the statistics, instead
  /// of being bad samples; see DecodeOptions.
  bool allow_truncated = false;
  std::uint64_t max_pixels = DecodeOptions{}.max_pixels;  ///< Of one image; larger: a bad sample.

  // Which samples an epoch draws; all of them once unless said otherwise.
  std::vector<std::uint64_t> subset = {};  ///< Numbers of the samples to draw from; empty: all.
  std::uint64_t repeat = 1;                ///< How often an epoch visits each sample.
  /// One for each sample (of `subset`): draws with replacement, in these proportions. `shuffle` is
  /// then without effect; an epoch has `samples_per_epoch` draws.
  std::vector<double> weights = {};
  /// Draws in an epoch of weighted samples or of a mixture; 0: as many as there are samples.
  std::uint64_t samples_per_epoch = 0;
  /// Shuffle::kBlock: neighbouring samples in a block, and blocks (of each rank) that are mixed;
  /// 0: 64 of each, in whole reads of the format. Loader::shuffle_quality() tells what they do.
  std::uint64_t block_size = 0;
  std::uint64_t block_window = 0;

  // Several training processes, each with its own part of every epoch.
  int rank = kAuto;        ///< This process's; kAuto: from the environment, see detect_rank().
  int world_size = kAuto;  ///< How many there are. Set both or none.
  Uneven uneven = Uneven::kPad;

  // How fast it comes; never what comes.
  /// Workers; 0: the work is done inside next(). kAuto begins with the CPU share, then keeps to
  /// what measuring shows to pay.
  int num_workers = kAuto;
  int max_workers = kAuto;  ///< num_workers = kAuto: never more than this, all loaders together.
  Workers workers = Workers::kProcesses;
  int prefetch = kAuto;  ///< Batches prepared ahead; at least 1. Without effect with 0 workers.
  /// Bytes that batches may take; 0: half of this rank's share of the memory that can be had (the
  /// control group's limit counts). A loader whose batches do not fit is refused at construction,
  /// naming both numbers; a consumer that keeps batches makes it grow up to here.
  std::uint64_t max_memory = 0;
  bool pin_memory = false;  ///< Page-lock the batches' memory; without CUDA one warning.
  Access access = Access::kAuto;

  // What happens when something goes wrong.
  int max_worker_restarts = 3;             ///< Deaths of workers tolerated in an epoch; 0: none.
  std::int64_t sample_timeout_ms = 0;      ///< Longest time on one sample; 0: no limit.
  std::int64_t lease_timeout_ms = 10'000;  ///< How long next() waits for a batch to be let go.
  BadSamples bad_samples = BadSamples::kFail;
  /// kSkip and kReplace: bad samples tolerated in an epoch; one more ends it with an error. Counted
  /// in the order of the batches, so always at the same place.
  std::uint64_t max_bad_samples = std::numeric_limits<std::uint64_t>::max();
  double max_bad_fraction = 0.05;  ///< The same, of this rank's samples of an epoch, rounded up.
  /// File to which a JSON object per bad sample is appended: epoch, position, sample, shard, key,
  /// field, cause, action. Empty: none; the first ten of an epoch are warned about in any case.
  std::string bad_sample_log = {};
};

/// Throws kInvalidArgument naming the option and its value unless `options` make sense.
void check_options(const LoaderOptions& options);

/// Returns `options` checked, with kAuto and the seed resolved. Warns on stderr, once per program,
/// of more workers than usable CPUs and of options that have no effect.
LoaderOptions resolve_options(LoaderOptions options);

}  // namespace shardmill
