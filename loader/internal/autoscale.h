// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace shardmill::internal {

/// What was measured over some seconds of loading.
struct Window {
  double wait = 0;  ///< Fraction of the time that the consumer waited for a batch.
  double busy = 0;  ///< Fraction of the time that workers worked.
  double rate = 0;  ///< Batches a second.
  double cost = 0;  ///< Seconds of a worker's time per sample.
  double step = 0;  ///< Seconds that the consumer had a batch.
};

/// Decides how many workers to have: grows on evidence, shrinks by arithmetic, and remembers what
/// did not pay until cost or step change. At most two trials of a number under the same conditions,
/// so it cannot go back and forth for ever. Pure arithmetic; docs/loader.md has the rule.
class Autoscaler {
 public:
  /// Starts with `workers`, of 1 to `most`, on `cpus` CPUs.
  Autoscaler(int workers, int cpus, int most) noexcept;

  int workers() const noexcept { return workers_; }
  /// Takes one more window in and returns the number of workers to have from now on.
  int observe(const Window& window);
  /// Says that there are `workers` now, whatever was wanted: a trial under way is off.
  void correct(int workers) noexcept;

 private:
  struct Trial {
    int from = 0;
    double before = 0;  // mean rate
    std::vector<double> rates;
  };

  void notice_change(const Window& window);
  void judge_trial();
  void try_more();
  void start_trial(int workers);
  bool failed(int from, int to) const;

  int workers_;
  int cpus_;
  int most_;
  int skip_ = 1;  // windows to let pass after a change
  int low_ = 0;   // windows in a row that needed fewer
  std::optional<Window> reference_;
  std::optional<Trial> trial_;
  std::vector<double> rates_;  // of the last windows without a change
  std::map<int, int> failures_;
};

}  // namespace shardmill::internal
