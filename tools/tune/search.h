// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace shardmill::tools {

/// Returns samples per second of one run; throws where these settings cannot run.
using MeasureRate = std::function<double(int workers, int prefetch)>;

/// Where a search for settings may look.
struct SearchLimits {
  int usable_cpus = 1;
  int max_workers = 2;
  std::vector<int> prefetches = {2, 4, 8};  ///< Ascending and not empty.
  int repeats = 3;                          ///< Runs of each candidate; the median counts.
};

/// One candidate and what was measured of it.
struct SearchEvidence {
  int workers = 0;
  int prefetch = 0;
  std::vector<double> rates;  ///< In the order of the runs.
  double median = 0;
  double spread = 0;    ///< (Largest - smallest rate) / median.
  std::string failure;  ///< Why it is left out; empty: it is not.
};

/// What a search found.
struct SearchResult {
  int workers = 0;
  int prefetch = 0;
  double rate = 0;                       ///< Median of the chosen candidate.
  double noise = 0;                      ///< Relative differences up to this one mean nothing.
  std::vector<SearchEvidence> evidence;  ///< By workers, then prefetch.
};

/// Finds the fewest workers, then the smallest prefetch, whose rate cannot be told from the best.
/// The first run only warms up and does not count; candidates known together are measured
/// in turns. Throws std::runtime_error with the first failure if none could run.
SearchResult search_settings(const SearchLimits& limits, const MeasureRate& measure);

}  // namespace shardmill::tools
