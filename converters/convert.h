// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/progress.h>
#include <shardmill/formats/dataset.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardmill {

/// The exact size of decoded images.
struct ImageSize {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
};

/// What becomes of a sample's image field.
enum class ImageOutput : std::uint8_t {
  kKeep,  ///< The stored bytes; encoded again, in their format, only where the size changes.
  kRaw,   ///< Decoded: field `npy`, uint8 height × width × 3; all images must be of one size.
  kJpeg,  ///< Encoded again: field `jpg`.
  kWebp,
  kPng,
};

/// A number, or a share of something.
struct Amount {
  std::uint64_t count = 0;
  double percent = 0;  ///< Counts if it is not 0.
  std::uint64_t of(std::uint64_t all) const noexcept {
    return percent > 0 ? static_cast<std::uint64_t>(static_cast<double>(all) * percent / 100)
                       : count;
  }
};

enum class OnError : std::uint8_t {
  kFail,  ///< The first bad sample in source order ends the conversion.
  kSkip,  ///< Bad samples are left out, counted and reported.
};

/// A sample that was left out.
struct SkippedSample {
  std::string path;
  std::string key;
  std::string field;
  std::string cause;
};

/// What to convert, into what, and how.
struct ConvertOptions {
  std::vector<std::string> sources = {};   ///< DATASETs, merged in this order.
  std::filesystem::path destination = {};  ///< The directory to write.
  std::string format = {};                 ///< Name of the target format, e.g. "tar".

  // What is read. Beside DATASETs sources may be lists (.csv, .tsv, .jsonl), arrays (.npy, idx;
  // several of equal length are one source with several fields), and raw token files.
  std::filesystem::path list_root = {};  ///< Where the files of a list are; empty: beside it.
  std::vector<std::pair<std::string, std::string>> list_files = {};  ///< Field, column with paths.
  std::string list_class = {};                                       ///< Column that becomes `cls`.
  std::string dtype = {};     ///< Sources are raw token files of this type ...
  std::uint64_t seq_len = 0;  ///< ... and rows of this length.
  /// Adds a file to each sample: field, and template with {dir} and {stem} of the sample's file.
  std::vector<std::pair<std::string, std::string>> pairs = {};
  bool pair_optional = false;            ///< Samples without that file are fine.
  std::uint64_t pack = 0;                ///< Token samples become rows of this length; 0: no.
  std::optional<std::int64_t> eos = {};  ///< Token behind each sample's, with `pack`.

  // What the shards hold.
  std::vector<std::string> fields = {};  ///< Only these fields (by their new names); empty: all.
  std::vector<std::pair<std::string, std::string>> rename = {};  ///< Old and new name.
  std::string classes = {};  ///< Class order: a text file, a JSON file or a DATASET.
  /// Names and shares of datasets in the destination, to which samples go by a hash of their keys:
  /// one stays where it is when others come or go.
  std::vector<std::pair<std::string, double>> split = {};
  std::optional<std::uint64_t> shuffle =
      {};                   ///< Seed of a permutation of all samples; none: in order.
  std::uint64_t limit = 0;  ///< Takes this many samples, chosen by seed; 0: all.
  std::uint64_t shard_bytes = std::uint64_t{1} << 30;  ///< Source bytes a shard.
  std::uint64_t shard_samples = 0;  ///< Samples a shard, exactly; 0: by shard_bytes.
  std::string name = "shard";       ///< Shards are called NAME-000000.SUFFIX.
  ImageOutput image_output = ImageOutput::kKeep;
  std::optional<ImageSize> image_size = {};  ///< Exactly: images cover it, cut in the centre.
  std::uint32_t image_shorter = 0;           ///< Or: the shorter side, never enlarged; 0: as it is.
  int quality = 90;                          ///< Of JPEG and WebP, 1 to 100.
  bool check_decode = false;  ///< Every image must decode, also where its bytes are kept.
  bool hdf5_vlen = false;     ///< HDF5: byte strings as variable-length uint8, for existing code.

  // How it is done; none of this changes a byte of the result.
  int jobs = 0;            ///< Processes; 0: one per usable CPU; 1: the calling process alone.
  bool force = false;      ///< Replaces a directory that holds a shardmill manifest or plan.
  bool dry_run = false;    ///< Scans, plans and forecasts, writes nothing.
  bool plan_only = false;  ///< Scans, and leaves the plan in the destination for a later run.
  /// Goes on with what the destination holds: the plan's options count, and options here that are
  /// not at their defaults, or are named in `given`, must be the plan's. Without a plan there it
  /// begins.
  bool resume = false;
  std::vector<std::string> given = {};  ///< Names as on the command line, e.g. "--shard-size".
  /// Stops, resumable, before the free space of the destination's filesystem falls below.
  Amount reserve = {0, 1.0};

  // Several processes, which share the destination.
  int rank = 0;        ///< This one ...
  int world_size = 1;  ///< ... of so many.

  // What happens to samples that cannot be read or written.
  OnError on_error = OnError::kFail;
  std::optional<Amount> max_errors = {};  ///< Fails after all if more samples were skipped.
  std::filesystem::path error_log = {};   ///< JSON lines: one a skipped sample.
};

/// What all ranks of a conversion did together.
struct ConvertTotals {
  std::uint64_t samples = 0;
  std::uint64_t shards = 0;
  std::uint64_t bytes = 0;
  std::uint64_t source_bytes = 0;
  std::uint64_t skipped_count = 0;
  std::string content_digest;
};

/// What a conversion did; with several ranks what this one did.
struct ConvertReport {
  std::uint64_t samples = 0;
  std::uint64_t shards = 0;
  std::uint64_t bytes = 0;             ///< Of the shard files; a forecast without a run.
  std::uint64_t bytes_plus_minus = 0;  ///< How far a forecast of encoded images may be off.
  std::uint64_t source_bytes = 0;      ///< Of the payloads read.
  double seconds = 0;
  std::string content_digest;         ///< As in the manifest; empty for a dry run.
  std::vector<std::string> warnings;  ///< All that went to Observer::warning.
  std::uint64_t skipped_count = 0;
  std::vector<SkippedSample> skipped;  ///< The first 100 of them, in the order of the shards.
  /// The shards as one DATASET argument, e.g. `out/shard-{000000..000003}.tar`; one a --split.
  std::vector<std::string> shard_patterns;
  std::uint64_t resumed_shards = 0;    ///< Of these, how many an earlier run had finished.
  bool complete = false;               ///< The destination is a whole dataset now.
  std::optional<ConvertTotals> total;  ///< Of all ranks, from the one that was the last.
};

/// Converts datasets into shards and a manifest.
///
/// Every option is checked and the whole source is scanned (names and sizes of fields, keys)
/// before anything is written. Equal sources and options give equal bytes for any `jobs`, and for
/// a run that was ended at any moment and resumed: the destination holds the plan and a journal
/// of finished shards until the manifest is there, which is written last. After a failure or an
/// interruption finished shards stay for a run with `resume`; nothing half-written has a final
/// name. Nothing is left if standard input is a source, which cannot be read again.
/// With more than one job child processes are forked: call it before threads that hold locks are
/// started, or with jobs = 1.
///
/// Throws Error: kInvalidArgument for wrong options (also a destination that would be
/// overwritten), otherwise what reading and writing met; Interrupted.
ConvertReport convert(const ConvertOptions& options, const Observer& observer = {});

}  // namespace shardmill
