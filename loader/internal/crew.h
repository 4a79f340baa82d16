// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shardmill::internal {

/// Whoever makes the rows beside the trainer: worker processes behind a nursery, or threads. Used
/// by the trainer's thread; the destructor ends all workers.
class Crew {
 public:
  virtual ~Crew() = default;
  /// Keeps `count` workers running from now on.
  virtual void order_workers(int count) = 0;
  /// Warns of each death. Throws if the run cannot go on. Called for every batch.
  virtual void check_reports() {}
  /// The same, and throws if nobody looks after the workers any more. Called while waiting.
  virtual void check_alive() {}
  /// Says that an epoch begins: limits count anew.
  virtual void new_epoch() noexcept {}
};

}  // namespace shardmill::internal
