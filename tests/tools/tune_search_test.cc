// SPDX-License-Identifier: Apache-2.0
// The search for settings on synthetic costs, beside an exhaustive sweep.
#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include "tests/support/catch.h"
#include "tools/tune/search.h"

using namespace shardmill::tools;

namespace {

using Cost = std::function<double(int workers)>;

double best_rate(const Cost& cost, int max_workers) {
  double best = 0;
  for (int w = 0; w <= max_workers; ++w) best = std::max(best, cost(w));
  return best;
}

// The fewest workers of all that lose less than 1 %.
int sweep(const Cost& cost, int max_workers) {
  int w = 0;
  while (cost(w) < 0.99 * best_rate(cost, max_workers)) ++w;
  return w;
}

SearchResult search(const Cost& cost, int cpus, int max_workers) {
  SearchLimits limits;
  limits.usable_cpus = cpus;
  limits.max_workers = max_workers;
  return search_settings(limits, [&](int workers, int) { return cost(workers); });
}

}  // namespace

TEST_CASE("The search agrees with a sweep within one worker", "[tools][tune]") {
  const int cpus = GENERATE(1, 2, 3, 8, 16);
  const int max_workers = 4 * cpus;
  const std::vector<Cost> costs = {
      [&](int w) { return 50.0 * std::min(std::max(w, 1), cpus); },      // decoding
      [](int w) { return 50.0 * std::max(w, 1); },                       // sleeping
      [](int w) { return std::min(50.0 * std::max(w, 1), 330.0); },      // a disk's limit
      [](int w) { return std::min(50.0 * std::max(w, 1), 120.0); },      // a slow consumer
      [](int w) { return w == 0 ? 1000.0 : 400.0; },                     // small, in memory
      [&](int w) { return 50.0 * std::max(w, 1) / (1 + w * w / 30.0); }  // contention
  };
  for (std::size_t i = 0; i < costs.size(); ++i) {
    CAPTURE(i, cpus);
    const SearchResult found = search(costs[i], cpus, max_workers);
    CHECK(std::abs(found.workers - sweep(costs[i], max_workers)) <= 1);
    CHECK(costs[i](found.workers) >= 0.9 * best_rate(costs[i], max_workers));
    CHECK(found.prefetch == 2);
  }
}

TEST_CASE("The search finds the same within one worker under noise", "[tools][tune]") {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    const SearchResult found = search(
        [&](int w) {
          const double drift = static_cast<double>(random() % 2001) / 1000.0 - 1;
          return 50.0 * std::min(std::max(w, 1), 2) * (1 + 0.02 * drift);
        },
        2, 8);
    CAPTURE(seed);
    CHECK(std::abs(found.workers - 2) <= 1);
  }
}

TEST_CASE("A cold first run decides nothing, a failing candidate is left out", "[tools][tune]") {
  int runs = 0;
  SearchLimits limits;
  limits.usable_cpus = 2;
  limits.max_workers = 8;
  const SearchResult found = search_settings(limits, [&](int workers, int prefetch) {
    if (workers == 4) throw std::runtime_error("no memory");
    if (runs++ == 0) return 1.0;
    return (prefetch < 4 ? 80.0 : 100.0) * std::min(std::max(workers, 1), 2);
  });
  CHECK(found.workers == 2);
  CHECK(found.prefetch == 4);
  bool reported = false;
  for (const SearchEvidence& one : found.evidence) {
    CHECK(one.workers <= 8);
    if (one.workers == 4) reported = one.failure == "no memory";
    if (one.failure.empty()) CHECK(one.rates.size() == 3);
    if (one.failure.empty()) CHECK(one.spread == 0);
  }
  CHECK(reported);
  CHECK_THROWS_WITH(
      search_settings(limits, [](int, int) -> double { throw std::runtime_error("gone"); }),
      "gone");
}
