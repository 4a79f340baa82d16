// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/progress.h>
#include <shardmill/loader/options.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace shardmill::tools::bench {

/// What is made of a sample: an image of one size, or with `none` its stored bytes or arrays.
struct Decode {
  bool none = false;
  std::uint32_t width = 224;
  std::uint32_t height = 224;

  std::string text() const;  ///< "none", "224" or "320x240".
};

/// Parses what Decode::text() returns; throws kInvalidArgument.
Decode parse_decode(const std::string& text);

/// What is measured, and how.
struct Settings {
  std::vector<std::string> datasets;  ///< DATASETs; with `formats` the one raw source.
  std::vector<int> workers;           ///< Ascending, without repetition.
  std::size_t batch_size = 64;
  std::optional<Decode> decode;  ///< None: 224 where a dataset has images, else none.
  DecodeMode mode = DecodeMode::kFast;
  Shuffle shuffle = Shuffle::kNone;
  double seconds = 3;  ///< Measured time of one run.
  int repeats = 3;     ///< Runs of each combination.
  bool allow_different = false;

  // The second form: RAW is converted first.
  std::vector<std::string> formats;
  std::uint64_t limit = 5000;
  std::filesystem::path work_dir;  ///< Empty: the system's folder for temporary files.
};

/// Returns 0, 1, 2, ... to twice `cpus`; beyond 8 with growing steps, so that large machines take
/// minutes, not hours. `cpus` itself and its double are always among them.
std::vector<int> default_workers(int cpus);

/// Parses `0,1,2`; sorts, drops repetitions; throws kInvalidArgument.
std::vector<int> parse_workers(const std::string& text);

/// Shows progress now and then; throws Interrupted once a stop is requested.
void check_in(const Observer& observer, std::string_view phase, std::uint64_t samples,
              std::uint64_t bytes);

}  // namespace shardmill::tools::bench
