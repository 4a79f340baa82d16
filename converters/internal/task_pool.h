// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/progress.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace shardmill::internal {

struct PoolState;

/// What a task sees of the pool that runs it.
class TaskContext {
 public:
  TaskContext(PoolState& state, std::size_t job, std::function<void()> heartbeat)
      : state_(&state), job_(job), heartbeat_(std::move(heartbeat)) {}

  /// Counts finished samples and bytes. Call it after each sample: throws Abandoned if this task
  /// need not go on, because of a stop or because a task before it failed.
  void advance(std::uint64_t samples, std::uint64_t bytes);

  /// Counts a sample that was left out.
  void count_error() noexcept;

  void begin(std::size_t task) noexcept;  ///< For the pool.

 private:
  PoolState* state_;
  std::size_t job_;
  std::size_t task_ = 0;
  std::function<void()> heartbeat_;  // only where tasks run in the calling process
};

/// Ends a task that is not needed any more. Not a failure.
struct Abandoned {};

using Task = std::function<std::string(std::size_t task, TaskContext& context)>;

struct PoolOptions {
  std::size_t tasks = 0;
  int jobs = 1;
  std::string_view phase;  ///< For Progress.
  std::uint64_t total_samples = 0;
  std::uint64_t total_bytes = 0;
  /// Called in the calling process for each task that has succeeded, as soon as that is known; an
  /// exception ends the pool. May be empty.
  std::function<void(std::size_t task, const std::string& result)> succeeded = {};
};

/// Runs tasks 0 … tasks-1 in `jobs` forked processes, or in the calling process if one is enough,
/// and returns their results by number. `make_task` is called once in each process, so that what
/// it captures (readers, buffers) belongs to that process.
///
/// Tasks are claimed in order. When one fails those after it are abandoned, those before it are
/// finished, and the error of the first one in order is thrown. A child that dies is kInternal.
/// All children have ended when this returns or throws.
std::vector<std::string> run_tasks(const PoolOptions& options,
                                   const std::function<Task()>& make_task,
                                   const Observer& observer);

/// Returns how many processes to use for `jobs` (0: usable CPUs) and this many tasks.
int job_count(int jobs, std::size_t tasks) noexcept;

}  // namespace shardmill::internal
