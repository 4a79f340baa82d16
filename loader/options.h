// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/array.h>
#include <shardmill/formats/reader.h>
#include <shardmill/formats/sample.h>
#include <shardmill/loader/decode/image.h>
#include <shardmill/loader/random.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace shardmill {

/// In what order an epoch visits the samples.
enum class Shuffle : std::uint8_t {
  kNone,  ///< In dataset order.
  kFull,  ///< A permutation of all samples that depends on seed and epoch alone; O(1) memory.
};

/// What one output of a batch is made of.
enum class OutputKind : std::uint8_t {
  kImage,     ///< An encoded image, decoded: uint8 rows of height × width × 3, RGB.
  kClass,     ///< A decimal class number: int64 rows without extent.
  kArray,     ///< An .npy or numeric HDF5 field: rows of one dtype and shape.
  kBytes,     ///< Stored bytes of any length: values behind each other, and offsets.
  kComputed,  ///< What a function of the user's makes of the sample.
};

/// Fills one row of a computed output: `row` has the bytes of one row, all zero or left over from
/// an earlier batch. Runs in a worker process (a copy of the program as it was when the loader
/// was constructed) and may throw; the error then names the sample.
using RowFunction =
    std::function<void(const SampleView& sample, Random& random, std::span<std::byte> row)>;

/// One named output of every batch. Made by the functions below.
struct Output {
  std::string name;  ///< Its name in the batch.
  OutputKind kind = OutputKind::kBytes;
  std::string field = {};  ///< The sample's; empty for images and bytes: its first image field.
  ArrayType row = {};  ///< Type of one row. For kArray an empty shape means: as the first sample.
  RowFunction compute = {};
};

/// Declares `name` as images resized to cover `width` × `height` pixels and cropped to the centre.
Output image_output(std::string name, std::uint32_t width, std::uint32_t height,
                    std::string field = {});
/// Declares `name` as the class numbers of `field`.
Output class_output(std::string name = "label", std::string field = "cls");
/// Declares `name` as the arrays in `field`; dtype and shape are those of the first sample.
Output array_output(std::string name, std::string field);
/// Declares `name` as the stored bytes of `field`; empty: of the first image field.
Output bytes_output(std::string name, std::string field);
/// Declares `name` as rows that `compute` fills.
Output computed_output(std::string name, ArrayType row, RowFunction compute);

/// `num_workers`: as many as this process may use CPUs; `prefetch`: 4.
inline constexpr int kAuto = -1;

/// How to load. Plain values; a Loader checks them once, at construction, and throws
/// kInvalidArgument naming option and value.
struct LoaderOptions {
  /// What a batch holds. Empty: every field of the first sample: `cls` as class numbers, arrays
  /// as arrays, all else as stored bytes.
  std::vector<Output> outputs = {};

  // What training sees.
  std::size_t batch_size = 1;              ///< Samples in a batch; at least 1.
  Shuffle shuffle = Shuffle::kNone;        ///< Order depends on seed and epoch only.
  std::optional<std::uint64_t> seed = {};  ///< None: a different one for every loader.
  bool drop_last = false;                  ///< Drop a last batch smaller than `batch_size`.
  DecodeMode decode = DecodeMode::kFast;   ///< kExact: full-size decoding, then resize.

  // How fast it comes; never what comes.
  int num_workers = kAuto;  ///< Worker processes; 0: the work is done inside next().
  int prefetch = kAuto;     ///< Batches prepared ahead; at least 1. Without effect with 0 workers.
  bool pin_memory = false;  ///< Page-lock the batches' memory; without CUDA one warning.
  Access access = Access::kAuto;

  // What happens when something goes wrong.
  int max_worker_restarts = 3;             ///< Deaths of workers tolerated in an epoch; 0: none.
  std::int64_t sample_timeout_ms = 0;      ///< Longest time on one sample; 0: no limit.
  std::int64_t lease_timeout_ms = 10'000;  ///< How long next() waits for a batch to be let go.
};

/// Throws kInvalidArgument naming the option and its value unless `options` make sense.
void check_options(const LoaderOptions& options);

/// Returns `options` checked, with kAuto and the seed resolved. Warns on stderr, once per program,
/// of more workers than usable CPUs and of options that have no effect.
LoaderOptions resolve_options(LoaderOptions options);

}  // namespace shardmill
