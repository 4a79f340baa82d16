// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <set>

#include "loader/internal/crew.h"
#include "loader/internal/shared.h"

namespace shardmill::internal {

/// The trainer's side of the nursery: starts it, waits for the scout, orders workers, reports
/// deaths, ends it. One thread.
class NurseryClient : public Crew {
 public:
  /// Forks the nursery and waits until the scout has opened the dataset. Throws the scout's error.
  explicit NurseryClient(Shared& shared);
  /// Ends the nursery and all workers; does nothing in a fork of the constructing process.
  ~NurseryClient() override;
  NurseryClient(const NurseryClient&) = delete;
  NurseryClient& operator=(const NurseryClient&) = delete;

  /// Has the nursery keep `count` workers running.
  void order_workers(int count) override;

  /// Warns of each death. Throws if the nursery reported a fatal error, or more workers died in
  /// this epoch than max_worker_restarts. Costs two loads; called for every batch.
  void check_reports() override;
  /// The same, and throws if the nursery is gone. Called while waiting.
  void check_alive() override;
  void new_epoch() noexcept override {
    deadly_.clear();
    deaths_elsewhere_ = 0;
  }

 private:
  void wait_for_scout();
  void report(const DeathRecord& death);
  void shut_down() noexcept;

  Shared& shared_;
  pid_t owner_;  // the process that constructed this
  pid_t nursery_ = 0;
  int socket_ = -1;
  std::uint64_t reported_ = 0;        // deaths
  std::set<std::uint64_t> deadly_;    // samples that workers died over in this epoch
  std::size_t deaths_elsewhere_ = 0;  // and deaths over none
};

}  // namespace shardmill::internal
