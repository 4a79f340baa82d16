// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>
#include <shardmill/loader/options.h>
#include <shardmill/loader/system/cpus.h>
#include <shardmill/loader/system/ranks.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "loader/internal/control.h"
#include "loader/internal/layout.h"
#include "loader/internal/numbers.h"
#include "loader/internal/warn.h"

namespace shardmill {

namespace {

constexpr int kDefaultPrefetch = 4;
constexpr int kRowsPerWorker = 32;         // in work or ready: so that many workers wait for none
constexpr std::size_t kMostPrefetch = 32;  // chosen by itself
constexpr std::size_t kMaxBatchSize = 1 << 20;  // rows a slot's control words are laid out for
// Slots beyond the prefetched ones: the batch being trained on and the one before it.
constexpr int kMaxPrefetch = static_cast<int>(internal::kMaxSlots) - 2;

[[noreturn]] void refuse(const std::string& option, const std::string& value,
                         const std::string& rule) {
  throw Error(ErrorCode::kInvalidArgument, {}, "loader option " + option,
              "is " + value + ", must be " + rule);
}

std::string number_text(double value) {
  std::string text = std::to_string(value);  // with six decimals
  text.erase(std::max(text.find_last_not_of('0') + 1, text.find('.') + 2));
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

bool has_size_from_1_to_65535(const Output& output) {
  const std::vector<std::uint64_t>& shape = output.row.shape;
  const std::size_t first = output.pixels.channels_first ? 1 : 0;
  if (shape.size() != 3 || shape[first] > 65'535 || shape[first + 1] > 65'535) return false;
  return output.row.elements() > 0;
}

void check_image(const std::string& option, const Output& output) {
  const PixelForm& pixels = output.pixels;
  const bool sized = !output.row.shape.empty();
  if (sized && !has_size_from_1_to_65535(output)) {
    refuse(option, "an image without a size", "made with width and height from 1 to 65535");
  }
  if (pixels.dtype != DType::kUInt8 && pixels.dtype != DType::kFloat32 &&
      pixels.dtype != DType::kFloat16) {
    refuse(option + ".pixels.dtype", std::string(dtype_name(pixels.dtype)),
           "uint8, float32 or float16");
  }
  if (output.row.dtype != pixels.dtype ||
      (sized && output.row.shape[pixels.channels_first ? 0 : 2] != pixels.channel_count())) {
    refuse(option + ".pixels", "another form than that of row", "given by with_pixels()");
  }
  for (std::size_t c = 0; c < pixels.channel_count(); ++c) {
    if (!std::isfinite(pixels.mean[c]) || !std::isnormal(pixels.std[c])) {
      refuse(option + ".pixels",
             "mean " + number_text(pixels.mean[c]) + " and std " + number_text(pixels.std[c]) +
                 " of channel " + std::to_string(c),
             "numbers, std not 0");
    }
  }
  if (output.padding && pixels.channels_first) {
    refuse(option + ".pixels.channels_first", "true", "false for padded rows");
  }
  if (output.fit != Fit::kCover && (output.padding || output.crop || !sized)) {
    refuse(option + ".fit", "given", "left out but for images of a given size without crop");
  }
}

// What follows an image output comes behind it, which is not padded.
void check_follower(const std::string& option, const std::vector<Output>& outputs,
                    const Output& output) {
  const auto named = [&](const Output& other) { return other.name == output.image; };
  const auto end = outputs.begin() + (&output - outputs.data());
  const auto image = std::find_if(outputs.begin(), end, named);
  if (image == end || image->kind != OutputKind::kImage || image->padding) {
    refuse(option + ".image", "\"" + output.image + "\"",
           "the name of an output of images, declared before, not padded");
  }
  if (output.kind != OutputKind::kMask) return;
  if (!internal::is_integer(output.row.dtype)) {
    refuse(option + ".row.dtype", std::string(dtype_name(output.row.dtype)), "an integer type");
  }
  if (!internal::fits(static_cast<double>(output.border), output.row.dtype)) {
    refuse(option + ".border", std::to_string(output.border),
           "a value that " + std::string(dtype_name(output.row.dtype)) + " has");
  }
}

void check_output(const std::string& option, const Output& output) {
  const bool image = output.kind == OutputKind::kImage;
  if (image) check_image(option, output);
  if (output.kind == OutputKind::kComputed && !output.compute) {
    refuse(option + ".compute", "empty", "a function");
  }
  if (output.crop) {
    const RandomCrop& crop = *output.crop;
    if (!image || output.padding || output.row.shape.empty()) {
      refuse(option + ".crop", "given", "left out but for images of a given size");
    }
    if (!(crop.min_area > 0 && crop.min_area <= crop.max_area && crop.max_area <= 1)) {
      refuse(
          option + ".crop",
          "an area from " + std::to_string(crop.min_area) + " to " + std::to_string(crop.max_area),
          "one above 0, to 1");
    }
    if (!(crop.min_ratio > 0 && crop.min_ratio <= crop.max_ratio && crop.max_ratio < 1000)) {
      refuse(option + ".crop",
             "a ratio from " + std::to_string(crop.min_ratio) + " to " +
                 std::to_string(crop.max_ratio),
             "one above 0, ascending");
    }
    if (!(crop.flip >= 0 && crop.flip <= 1)) {
      refuse(option + ".crop.flip", std::to_string(crop.flip), "0 to 1");
    }
  }
  if (output.field.empty() && !image && output.kind != OutputKind::kBytes &&
      output.kind != OutputKind::kComputed && output.kind != OutputKind::kGeometry) {
    refuse(option + ".field", "empty", "the name of a field");
  }
  const std::string dtype(dtype_name(output.row.dtype));
  if (output.kind == OutputKind::kTokens && !internal::is_integer(output.row.dtype)) {
    refuse(option + ".row.dtype", dtype, "an integer type");
  }
  if (output.kind == OutputKind::kScalar && !internal::is_number(output.row.dtype)) {
    refuse(option + ".row.dtype", dtype, "an integer or floating-point type but float16");
  }
  if (output.kind == OutputKind::kTokens && output.row.elements() == 0) {
    refuse(option, "sequences of length 0", "made with a length of 1 or more");
  }
  if (output.padding && output.kind == OutputKind::kTokens && output.row.shape.empty()) {
    refuse(option + ".padding", "given", "left out: ragged tokens are not padded");
  }
  if (output.list_view && !internal::is_ragged(output)) {
    refuse(option + ".list_view", "true", "false for rows of one size");
  }
  if (output.stored && !internal::is_integer(*output.stored)) {
    refuse(option + ".stored", std::string(dtype_name(*output.stored)), "an integer type");
  }
  if (output.padding && !image && output.kind != OutputKind::kTokens) {
    refuse(option + ".padding", "given", "left out: only images and tokens are padded");
  }
  if (output.padding && !internal::fits(output.padding->value, output.row.dtype)) {
    refuse(option + ".padding.value", number_text(output.padding->value),
           "a value that " + dtype + " has");
  }
  if (output.optional &&
      (output.kind == OutputKind::kComputed || output.kind == OutputKind::kGeometry)) {
    refuse(option + ".optional", "true",
           "false for computed outputs and geometry, which have no field");
  }
}

void check_outputs(const std::vector<Output>& outputs) {
  std::size_t arenas = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Output& output = outputs[i];
    const std::string option = "outputs[" + std::to_string(i) + "]";
    if (output.name.empty()) refuse(option + ".name", "empty", "a name");
    const auto same = [&](const Output& other) { return other.name == output.name; };
    if (std::any_of(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(i), same)) {
      refuse(option + ".name", "\"" + output.name + "\" a second time", "different in each output");
    }
    check_output(option, output);
    if (output.kind == OutputKind::kMask || output.kind == OutputKind::kGeometry) {
      check_follower(option, outputs, output);
    }
    if ((internal::is_ragged(output) || output.padding) && ++arenas > internal::kMaxArenas) {
      refuse("outputs", "more than " + std::to_string(internal::kMaxArenas) + " of any size",
             "fewer");
    }
  }
}

}  // namespace

namespace {

void check_sampling(const LoaderOptions& options) {
  if (options.repeat < 1) refuse("repeat", "0", "1 or more");
  if (options.weights.empty()) return;
  if (options.repeat > 1) {
    refuse("repeat", std::to_string(options.repeat),
           "1 with weights: samples_per_epoch says how many are drawn");
  }
  if (options.shuffle == Shuffle::kBlock) {
    refuse("shuffle", "block", "none or full with weights: draws with replacement have no order");
  }
}

void check_ranks(const LoaderOptions& options) {
  const auto number = [](int value) { return std::to_string(value); };
  if ((options.rank == kAuto) != (options.world_size == kAuto)) {
    refuse(options.rank == kAuto ? "rank" : "world_size", "left open",
           "given where the other of rank and world_size is");
  }
  if (options.rank == kAuto) return;
  if (options.world_size < 1) refuse("world_size", number(options.world_size), "1 or more");
  if (options.rank < 0 || options.rank >= options.world_size) {
    refuse("rank", number(options.rank), "0 to world_size - 1 = " + number(options.world_size - 1));
  }
}

void check_bad_samples(const LoaderOptions& options) {
  if (!(options.max_bad_fraction >= 0) || options.max_bad_fraction > 1) {
    refuse("max_bad_fraction", std::to_string(options.max_bad_fraction), "0 to 1");
  }
  if (!options.bad_sample_log.empty() && options.bad_samples == BadSamples::kFail) {
    internal::warn_once("bad_sample_log has no effect while bad samples are errors (kFail)");
  }
}

}  // namespace

std::string_view shuffle_name(Shuffle shuffle) noexcept {
  switch (shuffle) {
    case Shuffle::kNone:
      break;
    case Shuffle::kFull:
      return "full";
    case Shuffle::kBlock:
      return "block";
  }
  return "none";
}

void check_options(const LoaderOptions& options) {
  const auto number = [](auto value) { return std::to_string(value); };
  if (options.batch_size < 1 || options.batch_size > kMaxBatchSize) {
    refuse("batch_size", number(options.batch_size), "1 to " + number(kMaxBatchSize));
  }
  if (options.num_workers != kAuto &&
      (options.num_workers < 0 || options.num_workers > static_cast<int>(internal::kMaxWorkers))) {
    refuse("num_workers", number(options.num_workers),
           "0 to " + number(internal::kMaxWorkers) + ", or kAuto");
  }
  if (options.max_workers != kAuto &&
      (options.max_workers < 1 || options.max_workers > static_cast<int>(internal::kMaxWorkers))) {
    refuse("max_workers", number(options.max_workers),
           "1 to " + number(internal::kMaxWorkers) + ", or kAuto");
  }
  if (options.prefetch != kAuto && (options.prefetch < 1 || options.prefetch > kMaxPrefetch)) {
    refuse("prefetch", number(options.prefetch), "1 to " + number(kMaxPrefetch) + ", or kAuto");
  }
  if (options.max_worker_restarts < 0) {
    refuse("max_worker_restarts", number(options.max_worker_restarts), "0 or more");
  }
  if (options.sample_timeout_ms < 0) {
    refuse("sample_timeout_ms", number(options.sample_timeout_ms), "0 (none) or more");
  }
  if (options.sample_timeout_ms > 0 &&
      (options.num_workers == 0 || options.workers == Workers::kThreads)) {
    refuse("sample_timeout_ms", number(options.sample_timeout_ms),
           "0 without worker processes: nobody could enforce it");
  }
  if (options.lease_timeout_ms < 0) {
    refuse("lease_timeout_ms", number(options.lease_timeout_ms), "0 or more");
  }
  check_sampling(options);
  check_ranks(options);
  check_bad_samples(options);
  check_outputs(options.outputs);
}

LoaderOptions resolve_options(LoaderOptions options) {
  check_options(options);
  const int cpus = usable_cpus();
  if (options.max_workers == kAuto) options.max_workers = cpu_share();
  if (options.num_workers == kAuto) {
    options.num_workers = std::min(cpu_share(), options.max_workers);
  } else if (options.num_workers > cpus) {
    internal::warn_once("num_workers is " + std::to_string(options.num_workers) +
                        ", this process may use " + std::to_string(cpus) + " CPUs");
  }
  if (options.num_workers == 0 && options.prefetch != kAuto) {
    internal::warn_once("prefetch has no effect with num_workers = 0");
  }
  if (options.prefetch == kAuto) {
    // Small batches or many workers: enough that no worker is without a row.
    const auto rows = static_cast<std::size_t>(kRowsPerWorker * std::max(options.num_workers, 1));
    const std::size_t batches = (rows + options.batch_size - 1) / options.batch_size;
    options.prefetch =
        std::max(kDefaultPrefetch, static_cast<int>(std::min(batches, kMostPrefetch)));
  }
  if (options.rank == kAuto) {
    const RankInfo found = detect_rank();
    options.rank = found.rank;
    options.world_size = found.world_size;
  }
  if (!options.seed && options.world_size > 1) options.seed = 0;
  if (!options.seed) {
    std::random_device device;
    options.seed = std::uint64_t{device()} << 32 | device();
  }
  return options;
}

}  // namespace shardmill
