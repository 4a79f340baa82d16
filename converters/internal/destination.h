// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "converters/internal/source_set.h"

namespace shardmill::internal {

/// Name of the file that marks a directory which a conversion is writing. It makes `--force`
/// possible after a run that was killed.
inline constexpr const char* kPlanName = ".shardmill-plan.json";

/// The directory that a conversion writes, from the check before anything is touched to the end.
class Destination {
 public:
  /// Checks, and changes nothing. Throws kInvalidArgument if `path` lies in or above a source, is
  /// no directory, or would be overwritten: it is not empty, and `force` is not given or it holds
  /// neither a shardmill manifest nor a plan.
  Destination(std::filesystem::path path, bool force, const SourceSet& sources);
  /// Unless keep() was called: removes what this run may have written, and the directory if it
  /// was made by create().
  ~Destination();
  Destination(const Destination&) = delete;
  Destination& operator=(const Destination&) = delete;

  /// Removes the dataset that is replaced, makes the directory and marks it with a plan. `files`
  /// are the names that will be written in it; "." is everything, for a format that writes the
  /// directory itself as one shard.
  void create(std::vector<std::string> files);
  /// Removes the plan: the directory holds a complete dataset.
  void keep();

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  void check_sources(const SourceSet& sources) const;
  void remove_old();

  std::filesystem::path path_;
  std::vector<std::string> files_;
  bool existed_ = false;
  bool replace_ = false;
  bool active_ = false;  // create() was called, keep() was not
};

}  // namespace shardmill::internal
