// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "loader/internal/control.h"
#include "loader/internal/device.h"
#include "loader/internal/layout.h"
#include "loader/system/memory_file.h"

namespace shardmill::internal {

/// The slots' memory and which of them are free: shared by the loader and every lease, so that
/// batches outlive the loader. free_slot() and take_back() may be called from any thread.
class Ring {
 public:
  /// Reserves the slot file: as much address space as can be had; nothing is touched.
  Ring();
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  std::uint64_t file_bytes() const noexcept { return slots_.size(); }
  MemoryFile& file() noexcept { return slots_; }
  /// Sets the sizes and opens the first `slots` slots; they may grow to `budget` bytes in all.
  /// REQUIRES: called once.
  void open(const SlotLayout& layout, std::size_t slots, std::uint64_t budget);
  SlotMemory memory(std::uint32_t slot) const noexcept;

  /// Takes a free slot; nothing if all are in use.
  std::optional<std::uint32_t> free_slot();
  /// Adds one slot if the file has room for it and memory is left; returns it.
  std::optional<std::uint32_t> grow();
  /// Waits until a slot was taken back; false after `timeout_ms`.
  bool wait_for_free(std::int64_t timeout_ms);
  /// Makes `slot` free again once all of `pending` are done. Does nothing in a fork of the process
  /// that built the ring.
  void take_back(std::uint32_t slot, std::vector<Done> pending = {}) noexcept;
  std::size_t slots() const noexcept { return count_; }

  /// Page-locks the fixed part of slot `slot`, once. Returns the reason why it cannot be.
  std::string pin(std::uint32_t slot, const std::shared_ptr<Device>& device);
  /// The device that slot `slot` is page-locked for, or null.
  Device* device_of(std::uint32_t slot) const noexcept {
    return pinned_[slot] ? device_.get() : nullptr;
  }
  /// Gives back memory of a free slot's arenas beyond what batches usually need.
  void trim(std::uint32_t slot, const std::uint64_t* arena_used);

 private:
  struct Pending {
    std::uint32_t slot = 0;
    std::vector<Done> done;
  };
  void collect();

  MemoryFile slots_;
  SlotLayout layout_{};
  pid_t pid_;
  std::size_t count_ = 0;
  std::uint64_t budget_ = 0;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<std::uint32_t> free_;
  std::vector<Pending> pending_;  // released, but a GPU still reads them
  std::vector<char> pinned_;
  std::shared_ptr<Device> device_;
  std::uint64_t usual_arena_ = 0;  // running mean of arena bytes of a batch
};

/// One lent slot; the last owner gives it back.
class SlotLease {
 public:
  SlotLease(std::shared_ptr<Ring> ring, std::uint32_t slot) noexcept
      : ring_(std::move(ring)), slot_(slot) {}
  ~SlotLease();
  SlotLease(const SlotLease&) = delete;
  SlotLease& operator=(const SlotLease&) = delete;

  SlotMemory memory() const noexcept { return ring_->memory(slot_); }
  /// Keeps the slot from being used again before `done` says so. Any thread.
  void hold_until(Done done);
  Device* device() const noexcept { return ring_->device_of(slot_); }

 private:
  std::shared_ptr<Ring> ring_;
  std::uint32_t slot_;
  std::mutex mutex_;
  std::vector<Done> pending_;
};

}  // namespace shardmill::internal
