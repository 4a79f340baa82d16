// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/claims.h"

#include "loader/system/futex.h"

namespace shardmill::internal {

namespace {

constexpr std::uint8_t kDeathsOfBadSample = 2;  // a sample that kills twice is bad

}  // namespace

void publish(const ControlView& control, std::uint32_t slot, std::span<const PlanEntry> plan) {
  const SlotControl s = control.slot(slot);
  const std::size_t batch_size = control.batch_size();
  // Closed first: from here on a look at the cleared done bits cannot mistake the last round's
  // owners for workers that died over their rows.
  for (std::size_t row = 0; row < batch_size; ++row) s.owner[row].store(kClosed);
  s.header->seal_owner.store(kClosed);
  s.header->rows = static_cast<std::uint32_t>(plan.size());
  for (std::size_t word = 0; word * 64 < batch_size; ++word) s.done[word].store(0);
  s.header->sealed.store(0);
  s.reset_arenas();
  for (std::size_t row = 0; row < plan.size(); ++row) {
    s.plan[row] = plan[row];
    s.ahead[row].store(plan[row].sample[0], std::memory_order_relaxed);
    s.tries[row] = 0;
    s.failed[row].store(0, std::memory_order_relaxed);
    s.status[row].store(RowStatus::kPending, std::memory_order_relaxed);
  }
  for (std::size_t row = 0; row < plan.size(); ++row) {
    s.owner[row].store(kFree, std::memory_order_release);
  }
  s.header->seal_owner.store(kFree, std::memory_order_release);

  const std::uint64_t batch = control->published.load(std::memory_order_relaxed);
  control->slot_of[batch % kMaxSlots].store(slot);
  control->published.store(batch + 1);
  futex_bump(control->work);
}

bool complete(const ControlView& control, std::uint32_t slot) {
  const SlotControl s = control.slot(slot);
  return s.rows_done() && (control->layout.sealed == 0 || s.header->sealed.load() == 1);
}

bool abandon(const ControlView& control, std::uint32_t slot) {
  const SlotControl s = control.slot(slot);
  bool quiet = true;
  for (std::size_t row = 0; row < s.header->rows; ++row) {
    std::uint32_t expected = kFree;
    if (s.owner[row].compare_exchange_strong(expected, kClosed)) continue;
    if (expected != kClosed && !s.done_bit(row)) quiet = false;
  }
  std::uint32_t expected = kFree;
  if (!s.header->seal_owner.compare_exchange_strong(expected, kClosed) && expected != kClosed &&
      s.header->sealed.load() == 0) {
    quiet = false;
  }
  return quiet;
}

std::optional<Claim> Claimer::claim() noexcept {
  const std::uint32_t work = control_->work.load();
  if (work != seen_) {  // something was published or freed: from the oldest batch again
    seen_ = work;
    batch_ = control_->oldest.load();
    row_ = 0;
  }
  for (; batch_ < control_->published.load(); ++batch_, row_ = 0) {
    const std::uint32_t slot = control_->slot_of[batch_ % kMaxSlots].load();
    const SlotControl s = control_.slot(slot);
    if (row_ == 0) try_seal(slot);
    for (const std::uint32_t rows = s.header->rows; row_ < rows; ++row_) {
      if (s.owner[row_].load(std::memory_order_relaxed) != kFree) continue;
      SHARDMILL_POINT(*control_, 1);
      std::uint32_t expected = kFree;
      // Claim and record of the claim are this one instruction.
      if (!s.owner[row_].compare_exchange_strong(expected, serial_)) continue;
      SHARDMILL_POINT(*control_, 2);
      return Claim{slot, row_++};
    }
  }
  return std::nullopt;
}

void Claimer::wait(long timeout_ms) noexcept { futex_wait(control_->work, seen_, timeout_ms); }

void Claimer::finish(const Claim& claim) noexcept {
  const SlotControl s = control_.slot(claim.slot);
  SHARDMILL_POINT(*control_, 3);
  s.done[claim.row / 64].fetch_or(std::uint64_t{1} << (claim.row % 64));
  SHARDMILL_POINT(*control_, 4);
  if (!s.rows_done()) return;
  if (control_->layout.sealed != 0) return try_seal(claim.slot);
  futex_bump(control_->ready);
  SHARDMILL_POINT(*control_, 5);
}

void Claimer::try_seal(std::uint32_t slot) noexcept {
  if (control_->layout.sealed == 0) return;
  const SlotControl s = control_.slot(slot);
  if (s.header->sealed.load() != 0 || s.header->seal_owner.load() != kFree || !s.rows_done()) {
    return;
  }
  SHARDMILL_POINT(*control_, 6);
  std::uint32_t expected = kFree;
  if (!s.header->seal_owner.compare_exchange_strong(expected, serial_)) return;
  SHARDMILL_POINT(*control_, 7);
  if (!s.rows_done()) {  // the slot went round between the look and the claim
    s.header->seal_owner.store(kFree);
    return;
  }
  pack(slot);
  SHARDMILL_POINT(*control_, 8);
  s.header->sealed.store(1);
  SHARDMILL_POINT(*control_, 9);
  futex_bump(control_->ready);
}

Recovered recover(const ControlView& control, std::uint32_t serial, bool bad_at_once,
                  const DescribeDeath& describe) {
  Recovered found;
  const std::size_t slots = control->slots.load();
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    const SlotControl s = control.slot(slot);
    for (std::size_t row = 0; row < control.batch_size(); ++row) {
      if (s.owner[row].load() != serial || s.done_bit(row)) continue;
      std::uint32_t expected = serial;
      // Fails if the slot was closed and published anew between the look and here.
      if (!s.owner[row].compare_exchange_strong(expected, kNursery)) continue;
      found.sample = s.sample(row);
      ++s.tries[row];
      if (!bad_at_once && s.tries[row] < kDeathsOfBadSample) {
        control->redone.fetch_add(1);
        s.owner[row].store(kFree, std::memory_order_release);
        continue;
      }
      found.blamed = true;
      if (s.reject_sample(row, describe({slot, static_cast<std::uint32_t>(row)}, s.sample(row)),
                          -1)) {  // another one takes its place
        s.owner[row].store(kFree, std::memory_order_release);
        continue;
      }
      s.done[row / 64].fetch_or(std::uint64_t{1} << (row % 64));
    }
    std::uint32_t expected = serial;
    if (s.header->sealed.load() == 0) {
      s.header->seal_owner.compare_exchange_strong(expected, kFree);
    }
  }
  return found;
}

void wake_all(const ControlView& control) noexcept {
  futex_bump(control->work);
  futex_bump(control->ready);
}

}  // namespace shardmill::internal
