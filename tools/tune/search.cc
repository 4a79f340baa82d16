// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/search.h"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

namespace shardmill::tools {
namespace {

class SettingsSearch {
 public:
  SettingsSearch(const SearchLimits& limits, const MeasureRate& measure)
      : limits_(limits), measure_(measure) {}

  SearchResult run();

 private:
  using Candidate = std::pair<int, int>;  // workers, prefetch

  void measure_in_turns(const std::set<Candidate>& candidates);
  void bracket(int prefetch);
  bool refine(int prefetch);
  std::map<int, double> rates_at(int prefetch) const;
  double noise() const;
  int knee(const std::map<int, double>& rates) const;

  const SearchLimits& limits_;
  const MeasureRate& measure_;
  std::map<Candidate, SearchEvidence> seen_;
};

void SettingsSearch::measure_in_turns(const std::set<Candidate>& candidates) {
  std::set<Candidate> fresh;
  for (const Candidate& one : candidates) {
    if (!seen_.contains(one)) fresh.insert(one);
  }
  for (int turn = 0; turn < limits_.repeats; ++turn) {
    for (const Candidate& one : fresh) {
      SearchEvidence& evidence = seen_[one];
      evidence.workers = one.first;
      evidence.prefetch = one.second;
      if (!evidence.failure.empty()) continue;
      try {
        evidence.rates.push_back(measure_(one.first, one.second));
      } catch (const std::exception& error) {
        evidence.failure = error.what();
        if (evidence.failure.empty()) evidence.failure = "failed";
      }
    }
  }
  for (const Candidate& one : fresh) {
    SearchEvidence& evidence = seen_[one];
    if (!evidence.failure.empty() || evidence.rates.empty()) continue;
    std::vector<double> sorted = evidence.rates;
    std::sort(sorted.begin(), sorted.end());
    evidence.median = sorted[sorted.size() / 2];
    if (evidence.median > 0) evidence.spread = (sorted.back() - sorted.front()) / evidence.median;
  }
}

std::map<int, double> SettingsSearch::rates_at(int prefetch) const {
  std::map<int, double> rates;
  for (const auto& [candidate, evidence] : seen_) {
    if (candidate.second == prefetch && evidence.failure.empty()) {
      rates[candidate.first] = evidence.median;
    }
  }
  return rates;
}

// Between 1 % (no machine is quieter) and 8 % (or the choice could lose a tenth of the best rate).
double SettingsSearch::noise() const {
  double sum = 0;
  int count = 0;
  for (const auto& [candidate, evidence] : seen_) {
    if (!evidence.failure.empty()) continue;
    sum += evidence.spread;
    ++count;
  }
  return std::clamp(count == 0 ? 0.0 : sum / count, 0.01, 0.08);
}

double best_of(const std::map<int, double>& rates) {
  double best = 0;
  for (const auto& [setting, rate] : rates) best = std::max(best, rate);
  return best;
}

int SettingsSearch::knee(const std::map<int, double>& rates) const {
  const double enough = best_of(rates) * (1 - noise());
  for (const auto& [setting, rate] : rates) {
    if (rate >= enough) return setting;
  }
  throw std::runtime_error("no candidate");
}

// Doubles the number of workers for as long as that gains more than noise.
void SettingsSearch::bracket(int prefetch) {
  const int start = std::clamp(limits_.usable_cpus, 0, limits_.max_workers);
  int top = std::min(std::max(1, 2 * start), limits_.max_workers);
  measure_in_turns({{0, prefetch},
                    {std::min(1, limits_.max_workers), prefetch},
                    {start, prefetch},
                    {top, prefetch}});
  while (top < limits_.max_workers) {
    const std::map<int, double> rates = rates_at(prefetch);
    if (rates.empty() || knee(rates) != top) return;
    top = top > limits_.max_workers / 2 ? limits_.max_workers : 2 * top;
    measure_in_turns({{top, prefetch}});
  }
}

// Measures one number of workers more where the knee or the peak may hide; false: nowhere.
bool SettingsSearch::refine(int prefetch) {
  const std::map<int, double> rates = rates_at(prefetch);
  if (rates.empty()) return false;
  const auto at = rates.find(knee(rates));
  const auto unseen_between = [&](int low, int high) {
    const int middle = low + (high - low) / 2;
    if (middle == low || seen_.contains({middle, prefetch})) return false;
    measure_in_turns({{middle, prefetch}});
    return true;
  };
  if (at != rates.begin() && unseen_between(std::prev(at)->first, at->first)) return true;
  const auto above = std::next(at);
  const bool falls = above != rates.end() && above->second < best_of(rates) * (1 - noise());
  return falls && unseen_between(at->first, above->first);
}

SearchResult SettingsSearch::run() {
  const int usual = limits_.prefetches[limits_.prefetches.size() / 2];
  try {
    measure_(std::clamp(limits_.usable_cpus, 0, limits_.max_workers), usual);
  } catch (const std::exception&) {  // shows again when it counts
  }
  bracket(usual);
  while (refine(usual)) {
  }
  const std::map<int, double> rates = rates_at(usual);
  if (rates.empty()) throw std::runtime_error(seen_.begin()->second.failure);

  SearchResult result;
  result.workers = knee(rates);
  std::set<Candidate> depths;
  for (const int prefetch : limits_.prefetches) depths.insert({result.workers, prefetch});
  measure_in_turns(depths);
  std::map<int, double> by_prefetch;
  for (const Candidate& one : depths) {
    if (seen_[one].failure.empty()) by_prefetch[one.second] = seen_[one].median;
  }
  result.prefetch = knee(by_prefetch);
  result.rate = by_prefetch[result.prefetch];
  result.noise = noise();
  for (const auto& [candidate, evidence] : seen_) result.evidence.push_back(evidence);
  return result;
}

}  // namespace

SearchResult search_settings(const SearchLimits& limits, const MeasureRate& measure) {
  return SettingsSearch(limits, measure).run();
}

}  // namespace shardmill::tools
