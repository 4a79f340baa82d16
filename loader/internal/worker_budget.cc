// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/worker_budget.h"

#include <algorithm>
#include <utility>

namespace shardmill::internal {

namespace {

constexpr std::chrono::seconds kIdle{2};  // longer than a step takes, shorter than a validation

}  // namespace

WorkerBudget& WorkerBudget::of_process() {
  static WorkerBudget budget;
  return budget;
}

WorkerBudget::Member::Member(WorkerBudget& budget, int limit, Order order)
    : budget_(budget), limit_(limit), order_(std::move(order)) {
  const std::lock_guard lock(budget_.mutex_);
  budget_.members_.push_back(this);
}

WorkerBudget::Member::~Member() {
  const std::lock_guard lock(budget_.mutex_);
  budget_.members_.remove(this);
}

void WorkerBudget::Member::touch() {
  const std::lock_guard lock(budget_.mutex_);
  used_ = Clock::now();
}

int WorkerBudget::Member::reserve(int wanted) {
  const std::lock_guard lock(budget_.mutex_);
  budget_.set(*this, std::clamp(limit_ - budget_.taken_by_others(*this), 0, wanted));
  return workers();
}

int WorkerBudget::Member::ask(int wanted) {
  const std::lock_guard lock(budget_.mutex_);
  used_ = Clock::now();
  int taken = budget_.taken_by_others(*this);
  for (Member* other : budget_.members_) {
    const int missing = wanted + taken - limit_;
    if (missing <= 0) break;
    if (other == this || other->owner_ != getpid() || used_ - other->used_ < kIdle) continue;
    const int given = std::min(missing, other->workers());
    budget_.set(*other, other->workers() - given);
    taken -= given;
  }
  budget_.set(*this, std::max(1, std::min(wanted, limit_ - taken)));
  return workers();
}

int WorkerBudget::taken_by_others(const Member& member) const {
  int taken = 0;
  for (const Member* other : members_) {
    if (other != &member && other->owner_ == getpid()) taken += other->workers();
  }
  return taken;
}

void WorkerBudget::set(Member& member, int workers) {
  if (member.workers() == workers) return;
  member.workers_.store(workers);
  member.order_(workers);
}

}  // namespace shardmill::internal
