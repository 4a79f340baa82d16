// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/thread_crew.h"

#include <pthread.h>

#include <csignal>
#include <string>

#include "loader/internal/worker.h"
#include "loader/system/child.h"
#include "loader/system/futex.h"

namespace shardmill::internal {

ThreadCrew::~ThreadCrew() {
  wanted_.store(0);
  shared_.control->stop.store(1);
  futex_bump(shared_.control->work);
}

void ThreadCrew::order_workers(int count) {
  announce_workers(shared_.stats(), count);
  wanted_.store(static_cast<std::size_t>(count));
  futex_bump(shared_.control->work);
  while (threads_.size() > static_cast<std::size_t>(count)) threads_.pop_back();  // joins
  // Signals are for the trainer's own threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (threads_.size() < static_cast<std::size_t>(count)) {
    threads_.emplace_back([this, serial = next_serial_++, row = threads_.size()] {
      pthread_setname_np(pthread_self(), ("shardmill-" + std::to_string(row)).c_str());
      use_one_openmp_thread();
      work(shared_, serial, row, [this, row] { return row >= wanted_.load(); });
    });
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace shardmill::internal
