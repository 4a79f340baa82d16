// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/options.h>

#include <cstdint>
#include <string>
#include <vector>

#include "loader/internal/control.h"
#include "loader/internal/corpus.h"
#include "loader/internal/order.h"
#include "loader/internal/resume.h"
#include "loader/internal/schedule.h"

namespace shardmill::internal {

/// A place in the sequence of batches.
struct Place {
  std::uint64_t epoch = 0;
  std::uint64_t lanes = 1;  ///< World size when the epoch was begun.
  Schedule schedule;
  std::uint64_t batch = 0;  ///< The next one, counted from the schedule's cursor.

  bool at_end() const noexcept { return batch >= schedule.batches(); }
  bool at_start_of(std::uint64_t wanted) const noexcept { return epoch == wanted && batch == 0; }
};

/// Knows the whole sequence of batches: which rows a place has, and what a state means. Lives in
/// the trainer.
class Planner {
 public:
  /// `options` (resolved), `corpus` and `weights` (a mixture's) must outlive it. Throws
  /// kInvalidArgument where they do not fit each other.
  Planner(LoaderOptions& options, const Corpus& corpus, const std::vector<double>& weights);

  /// Returns the beginning of an epoch.
  Place start_of(std::uint64_t epoch) const noexcept;
  /// Returns the rows of the batch at `place`; valid until the next call.
  const std::vector<PlanEntry>& batch_at(const Place& place);
  /// Returns the one row at a global position, which may be a padding row's. Throws
  /// kInvalidArgument for one beyond.
  const std::vector<PlanEntry>& row_at(std::uint64_t epoch, std::uint64_t lanes,
                                       std::uint64_t position);

  /// Returns what resume() needs to go on at `place`.
  std::string state_at(const Place& place);
  /// Returns the place that a state names and takes over its seed. Throws kInvalidArgument for a
  /// state of another dataset or order; of another seed, if `seed_given`.
  Place resume(std::string_view state, bool seed_given);

  /// See EpochOrder::quality().
  double quality(const Place& place);

 private:
  void add_row(std::uint64_t epoch, std::uint64_t position);
  const std::string& identity();

  LoaderOptions& options_;
  const Corpus& corpus_;
  EpochOrder order_;
  std::vector<PlanEntry> rows_;
  std::string identity_;  // of the datasets, once asked for
};

}  // namespace shardmill::internal
