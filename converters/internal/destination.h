// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/progress.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "converters/internal/lock.h"
#include "converters/internal/plan.h"
#include "converters/internal/source_set.h"
#include "converters/internal/working_files.h"

namespace shardmill::internal {

/// Throws kInvalidArgument if `path` lies in or above one of `sources`.
void check_apart(const std::filesystem::path& path, const SourceSet& sources);

/// The directory that a conversion writes.
class Destination {
 public:
  /// What is there.
  enum class State {
    kNew,         ///< Nothing, or an empty directory.
    kUnfinished,  ///< A plan, so that a conversion can go on.
    kComplete,    ///< A dataset with a manifest.
    kForeign,     ///< Something else, or no directory.
  };

  explicit Destination(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return path_; }
  State state() const noexcept { return state_; }

  /// Throws kInvalidArgument if a new conversion may not write here: the directory is not empty,
  /// and `force` is not given or it holds neither a shardmill manifest nor a plan.
  void check_writable(bool force) const;

  /// Makes the directory and takes its lock. Throws kResourceExhausted if another conversion has
  /// it; warns if that is dead.
  /// Ranks, too, must have ended.
  void lock(const Observer& observer);
  /// The same, but returns false if another process has it, and ranks do not matter.
  bool try_lock(const Observer& observer, std::string* holder = nullptr);
  /// Takes the lock of a rank alone. Throws kResourceExhausted if that runs already.
  DestinationLock lock_rank(int rank, const Observer& observer);
  bool locked() const noexcept { return lock_.has_value(); }
  DestinationLock& held() { return *lock_; }
  /// Looks again what is there.
  void look();

  /// Removes what a dataset or an unfinished conversion has left here, and nothing else. REQUIRES:
  /// locked.
  void clear();

  /// Removes what is there of a shard that is to be written (again). `keep`: see
  /// foreign_names().
  void clear_shard(const ConvertPlan& plan, const PlannedShard& shard,
                   const std::vector<std::string>& keep) const;
  /// Returns the names that are here and belong to no conversion.
  std::vector<std::string> foreign_names() const;

  /// Where the datasets of a plan are.
  std::filesystem::path part_path(const ConvertPlan& plan, std::size_t part) const;
  std::filesystem::path shard_path(const ConvertPlan& plan, const PlannedShard& shard) const;

  /// Removes the plan and the journals: the directory holds a complete dataset.
  void finish() noexcept;
  /// Removes everything that this conversion has written, and the directory if lock() made it.
  void discard(const ConvertPlan& plan, const std::vector<std::string>& keep) noexcept;
  /// Gives the lock back; removes the directory if lock() made it and it is empty.
  void unlock() noexcept;

 private:
  void make_directory();

  std::filesystem::path path_;
  State state_ = State::kNew;
  bool made_ = false;
  std::optional<DestinationLock> lock_;
};

}  // namespace shardmill::internal
