// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "loader/internal/control.h"
#include "loader/internal/crew.h"
#include "loader/internal/shared.h"

namespace shardmill::internal {

/// Workers that are threads of the trainer: the same claims, rows and batches, but no nursery, so
/// that a crash ends the program and nobody enforces times.
class ThreadCrew : public Crew {
 public:
  /// `shared` has its dataset and outputs, and must outlive the crew.
  explicit ThreadCrew(Shared& shared) : shared_(shared) {}
  ~ThreadCrew() override;
  ThreadCrew(const ThreadCrew&) = delete;
  ThreadCrew& operator=(const ThreadCrew&) = delete;

  void order_workers(int count) override;

 private:
  Shared& shared_;
  std::atomic<std::size_t> wanted_ = 0;
  std::uint32_t next_serial_ = kFirstSerial;
  std::vector<std::jthread> threads_;
};

}  // namespace shardmill::internal
