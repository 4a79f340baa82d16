// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/ring.h"

#include <shardmill/formats/error.h>
#include <shardmill/loader/system/cpus.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace shardmill::internal {

namespace {

// Address space asked for first; halved until the limits of this process allow it.
constexpr std::uint64_t kReserveBytes = std::uint64_t{256} << 30;
constexpr std::uint64_t kLeastReserveBytes = std::uint64_t{16} << 20;
// Arenas are trimmed when a batch used this many times more than usual.
constexpr std::uint64_t kTrimFactor = 4;
constexpr std::chrono::microseconds kPollTime{200};  // between two looks at unfinished copies
constexpr std::chrono::seconds kLongestCopy{10};
constexpr std::uint64_t kLeastTrimBytes = std::uint64_t{1} << 20;

MemoryFile reserve() {
  for (std::uint64_t bytes = kReserveBytes;; bytes /= 2) {
    try {
      return MemoryFile("shardmill-slots", bytes);
    } catch (const Error&) {
      if (bytes <= kLeastReserveBytes) throw;
    }
  }
}

}  // namespace

Ring::Ring() : slots_(reserve()), pid_(getpid()) {}

Ring::~Ring() {
  if (getpid() != pid_ || !device_) return;
  // No memory may go away under a copy that still reads it.
  const auto end = std::chrono::steady_clock::now() + kLongestCopy;
  for (collect(); !pending_.empty() && std::chrono::steady_clock::now() < end; collect()) {
    std::this_thread::sleep_for(kPollTime);
  }
  for (std::uint32_t slot = 0; slot < pinned_.size(); ++slot) {
    if (pinned_[slot]) device_->unpin(memory(slot).base);
  }
}

void Ring::open(const SlotLayout& layout, std::size_t slots, std::uint64_t budget) {
  layout_ = layout;
  budget_ = budget;
  count_ = slots;
  pinned_.resize(kMaxSlots, 0);
  for (std::size_t slot = slots; slot-- > 0;) free_.push_back(static_cast<std::uint32_t>(slot));
}

SlotMemory Ring::memory(std::uint32_t slot) const noexcept {
  return {slots_.data() + slot * layout_.stride, &layout_};
}

// Moves slots whose copies have ended to the free ones. REQUIRES: the mutex is held.
void Ring::collect() {
  std::erase_if(pending_, [this](const Pending& pending) {
    const bool done = std::all_of(pending.done.begin(), pending.done.end(),
                                  [](const Done& each) { return each(); });
    if (done) free_.push_back(pending.slot);
    return done;
  });
}

std::optional<std::uint32_t> Ring::free_slot() {
  const std::lock_guard lock(mutex_);
  collect();
  if (free_.empty()) return std::nullopt;
  const std::uint32_t slot = free_.back();  // the warmest one
  free_.pop_back();
  return slot;
}

std::optional<std::uint32_t> Ring::grow() {
  if (count_ == kMaxSlots || (count_ + 1) * layout_.stride > slots_.size()) return std::nullopt;
  const std::uint64_t bytes = layout_.fixed_bytes + 2 * layout_.arenas * usual_arena_;
  if ((count_ + 1) * bytes > budget_ || available_memory() / 2 < bytes) return std::nullopt;
  return static_cast<std::uint32_t>(count_++);
}

bool Ring::wait_for_free(std::int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (true) {
    collect();
    if (!free_.empty()) return true;
    // Nobody tells when a copy has ended: then it is asked for now and then.
    const auto next = pending_.empty() ? end : std::chrono::steady_clock::now() + kPollTime;
    if (std::chrono::steady_clock::now() >= end) return false;
    freed_.wait_until(lock, std::min(next, end));
  }
}

void Ring::take_back(std::uint32_t slot, std::vector<Done> pending) noexcept {
  if (getpid() != pid_) return;
  {
    const std::lock_guard lock(mutex_);
    if (pending.empty()) {
      free_.push_back(slot);
    } else {
      pending_.push_back({slot, std::move(pending)});
    }
  }
  freed_.notify_one();
}

SlotLease::~SlotLease() {
  // What the default stream was given so far may read the slot: the consumer's own copies.
  if (Device* const device = this->device()) pending_.push_back(device->mark(nullptr));
  ring_->take_back(slot_, std::move(pending_));
}

void SlotLease::hold_until(Done done) {
  const std::lock_guard lock(mutex_);
  pending_.push_back(std::move(done));
}

std::string Ring::pin(std::uint32_t slot, const std::shared_ptr<Device>& device) {
  if (pinned_[slot]) return {};
  device_ = device;
  const std::string reason = device->pin(memory(slot).base, layout_.fixed_bytes);
  pinned_[slot] = reason.empty();
  return reason;
}

void Ring::trim(std::uint32_t slot, const std::uint64_t* arena_used) {
  const SlotMemory memory = this->memory(slot);
  for (int arena = 0; arena < static_cast<int>(layout_.arenas); ++arena) {
    const std::uint64_t used = std::min(arena_used[arena], layout_.arena_bytes);
    const std::uint64_t keep = std::max(kLeastTrimBytes, kTrimFactor * usual_arena_) / 4096 * 4096;
    if (used > keep) {
      for (std::byte* area : {memory.arena(arena), memory.packed(arena)}) {
        slots_.punch(static_cast<std::uint64_t>(area - slots_.data()) + keep, used - keep);
      }
    }
    usual_arena_ =
        usual_arena_ == 0 ? used : usual_arena_ - usual_arena_ / 16 + std::min(used, keep) / 16;
  }
}

}  // namespace shardmill::internal
