// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/autoscale.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace shardmill::internal {

namespace {

// Found by simulation over loads, steps and noise; the tests repeat it.
constexpr double kBoundWait = 0.05;   // the consumer waits for data
constexpr double kFreeWait = 0.02;    // it does not
constexpr double kBusy = 0.9;         // workers have nothing left to give
constexpr double kSpare = 0.8;        // they would have with one fewer
constexpr double kGain = 1.03;        // what more workers must bring
constexpr double kLoss = 0.98;        // what fewer may cost
constexpr double kOtherRegime = 0.3;  // relative change of cost or step
constexpr std::size_t kWindows = 4;   // windows that a rate is the mean of
constexpr int kLowWindows = 3;
constexpr int kMostFailures = 2;

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

bool differs(double now, double then) { return std::abs(now - then) > kOtherRegime * then; }

}  // namespace

Autoscaler::Autoscaler(int workers, int cpus, int most) noexcept
    : workers_(std::clamp(workers, 1, most)), cpus_(cpus), most_(most) {}

void Autoscaler::correct(int workers) noexcept {
  if (workers == workers_) return;
  workers_ = workers;
  trial_.reset();
  rates_.clear();
  skip_ = 1;
}

void Autoscaler::notice_change(const Window& window) {
  if (reference_ &&
      (differs(window.cost, reference_->cost) || differs(window.step, reference_->step))) {
    failures_.clear();
    rates_.clear();
    trial_.reset();
    reference_.reset();
  }
  if (!reference_) reference_ = window;
}

int Autoscaler::observe(const Window& window) {
  notice_change(window);
  if (skip_ > 0) {
    --skip_;
    return workers_;
  }
  if (trial_) {
    trial_->rates.push_back(window.rate);
    if (trial_->rates.size() == kWindows) judge_trial();
    return workers_;
  }
  rates_.push_back(window.rate);
  if (rates_.size() > kWindows) rates_.erase(rates_.begin());
  const double w = workers_;
  if (window.wait > kBoundWait && window.busy > kBusy) {
    low_ = 0;
    if (rates_.size() == kWindows) try_more();
  } else if (window.wait < kFreeWait && workers_ > 1 && window.busy * w / (w - 1) < kSpare) {
    if (++low_ < kLowWindows) return workers_;
    --workers_;
    low_ = 0;
    skip_ = 1;
    rates_.clear();
  } else {
    low_ = 0;
  }
  return workers_;
}

bool Autoscaler::failed(int from, int to) const {
  return std::any_of(failures_.begin(), failures_.end(), [&](const auto& entry) {
    return entry.first >= from && entry.first <= to && entry.second >= kMostFailures;
  });
}

void Autoscaler::try_more() {
  for (const int step : {std::max(1, workers_ / 4), 1}) {
    const int more = std::min(workers_ + step, most_);
    if (more > workers_ && !failed(workers_ + 1, more)) return start_trial(more);
  }
  if (workers_ <= cpus_) return;
  // More workers than CPUs, and still not enough: does the last of them do any good?
  const int fewer = std::max(cpus_, workers_ - std::max(1, workers_ / 4));
  if (!failed(fewer, fewer)) start_trial(fewer);
}

void Autoscaler::start_trial(int workers) {
  trial_ = Trial{workers_, mean(rates_), {}};
  workers_ = workers;
  skip_ = 1;
}

void Autoscaler::judge_trial() {
  const Trial trial = *trial_;
  trial_.reset();
  rates_.clear();
  const bool more = workers_ > trial.from;
  const bool keep = mean(trial.rates) >= trial.before * (more ? kGain : kLoss);
  if (!keep) {
    ++failures_[workers_];
    workers_ = trial.from;
    skip_ = 1;
  } else if (more) {
    // What failed below has to be looked at anew.
    std::erase_if(failures_, [&](const auto& entry) { return entry.first <= workers_; });
  } else {
    failures_[trial.from] = kMostFailures;  // given up for good
  }
}

}  // namespace shardmill::internal
