// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/progress.h>
#include <shardmill/formats/dataset.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace shardmill {

/// The exact size of decoded images.
struct ImageSize {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
};

/// What becomes of a sample's image field.
enum class ImageOutput : std::uint8_t {
  kKeep,  ///< The stored bytes.
  kRaw,   ///< Decoded: field `npy`, uint8 height × width × 3, of ConvertOptions::image_size.
};

/// What to convert, into what, and how.
struct ConvertOptions {
  std::vector<std::string> sources = {};   ///< DATASETs, merged in this order.
  std::filesystem::path destination = {};  ///< The directory to write.
  std::string format = {};                 ///< Name of the target format, e.g. "tar".

  // What the shards hold.
  std::optional<std::uint64_t> shuffle =
      {};                   ///< Seed of a permutation of all samples; none: in order.
  std::uint64_t limit = 0;  ///< Takes this many samples, chosen by seed; 0: all.
  std::uint64_t shard_bytes = std::uint64_t{1} << 30;  ///< Source bytes a shard.
  std::uint64_t shard_samples = 0;  ///< Samples a shard, exactly; 0: by shard_bytes.
  std::string name = "shard";       ///< Shards are called NAME-000000.SUFFIX.
  ImageOutput image_output = ImageOutput::kKeep;
  std::optional<ImageSize> image_size = {};  ///< Needed by, and only for, ImageOutput::kRaw.
  bool hdf5_vlen = false;  ///< HDF5: byte strings as variable-length uint8, for existing code.

  // How it is done; none of this changes a byte of the result.
  int jobs = 0;          ///< Processes; 0: one per usable CPU; 1: the calling process alone.
  bool force = false;    ///< Replaces a directory that holds a shardmill manifest or plan.
  bool dry_run = false;  ///< Scans and plans, writes nothing.
};

/// What a conversion did.
struct ConvertReport {
  std::uint64_t samples = 0;
  std::uint64_t shards = 0;
  std::uint64_t bytes = 0;         ///< Of the shard files written; 0 for a dry run.
  std::uint64_t source_bytes = 0;  ///< Of the payloads read.
  double seconds = 0;
  std::string content_digest;         ///< As in the manifest; empty for a dry run.
  std::vector<std::string> warnings;  ///< All that went to Observer::warning.
  /// The shards as one DATASET argument, e.g. `out/shard-{000000..000003}.tar`.
  std::string shard_pattern;
};

/// Converts datasets into shards and a manifest.
///
/// Every option is checked and the whole source is scanned (names and sizes of fields, keys)
/// before anything is written. Equal sources and options give equal bytes for any `jobs`. The
/// manifest is written last; after a failure or an interruption nothing of this run is left.
/// With more than one job child processes are forked: call it before threads that hold locks are
/// started, or with jobs = 1.
///
/// Throws Error: kInvalidArgument for wrong options (also a destination that would be
/// overwritten), otherwise what reading and writing met; Interrupted.
ConvertReport convert(const ConvertOptions& options, const Observer& observer = {});

}  // namespace shardmill
