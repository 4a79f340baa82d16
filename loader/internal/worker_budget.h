// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <mutex>

namespace shardmill::internal {

/// The workers of all loaders of this process that choose their number themselves: together they
/// keep within the process's CPU share. A loader that nobody has asked for a batch lately gives its
/// workers away when another needs them, and one that was never asked may have none; a validation
/// loader waits for its turn that way. Any thread.
class WorkerBudget {
 public:
  using Clock = std::chrono::steady_clock;
  using Order = std::function<void(int workers)>;

  /// One loader's part; removed when destroyed.
  class Member {
   public:
    Member(WorkerBudget& budget, int limit, Order order);
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    /// Takes up to `wanted` workers if there are free ones, perhaps none, and orders them.
    int reserve(int wanted);
    /// Asks for `wanted` workers in all, for a loader in use: takes idle loaders' workers if there
    /// are not enough free ones. Orders and returns how many there are now, at least 1.
    int ask(int wanted);
    /// Says that the loader is in use.
    void touch();
    int workers() const noexcept { return workers_.load(std::memory_order_relaxed); }

   private:
    friend class WorkerBudget;
    WorkerBudget& budget_;
    const pid_t owner_ = getpid();  // in a fork, its parent's members are none of its business
    int limit_;
    Order order_;
    std::atomic<int> workers_ = 0;  // written under the budget's mutex
    Clock::time_point used_ = {};   // never
  };

  static WorkerBudget& of_process();

 private:
  int taken_by_others(const Member& member) const;
  void set(Member& member, int workers);

  std::mutex mutex_;
  std::list<Member*> members_;
};

}  // namespace shardmill::internal
