// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/convert.h>
#include <shardmill/formats/digest.h>
#include <shardmill/formats/manifest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/internal/descriptor.h"

namespace shardmill::internal {

/// What is known about a shard once it is written.
struct FinishedShard {
  std::size_t number = 0;  ///< In the plan.
  ManifestShard entry;
  std::uint64_t bytes = 0;  ///< On disk.
  Digest digest;            ///< Sum over its samples.
  std::vector<SkippedSample> skipped;

  std::string text() const;  ///< One line.
  /// Throws kDataLoss for anything but such a line.
  static FinishedShard parse(std::string_view line);
};

/// A file of lines, each durable when append() returns. A line that was being written when the
/// machine stopped is not there.
class Journal {
 public:
  /// Opens `file` to append to it; makes it if it is not there.
  explicit Journal(const std::filesystem::path& file);
  void append(std::string_view line);

  /// Returns the whole lines of `file`; none if it is not there.
  static std::vector<std::string> read(const std::filesystem::path& file);

 private:
  std::string path_;
  Descriptor fd_;
};

/// What all journals in a destination say.
struct JournalState {
  std::map<std::size_t, FinishedShard> finished;  ///< By number.
  std::set<std::pair<int, int>> arrived;          ///< Ranks (rank, world size) that are through.
};
JournalState read_journals(const std::filesystem::path& directory);

/// Returns the line by which a rank says that it is through with its shards.
std::string arrival_line(int rank, int world_size);

}  // namespace shardmill::internal
