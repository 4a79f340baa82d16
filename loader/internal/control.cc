// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/control.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#ifdef SHARDMILL_PROTOCOL_POINTS
#include <sched.h>
#include <shardmill/loader/random.h>
#include <unistd.h>

#include <csignal>
#endif

namespace shardmill::internal {

namespace {

constexpr std::size_t kPage = 4096;

constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

// Offsets of a slot's arrays; the error cells come last, on pages of their own.
struct SlotOffsets {
  std::size_t done, owner, plan, ahead, ranges, status, tries, failed, errors, total;

  explicit SlotOffsets(std::size_t rows) {
    std::size_t at = sizeof(SlotHeader);
    const auto take = [&at](std::size_t bytes) {
      const std::size_t offset = at;
      at = round_up(at + bytes, 64);
      return offset;
    };
    done = take((rows + 63) / 64 * sizeof(std::uint64_t));
    owner = take(rows * sizeof(std::uint32_t));
    plan = take(rows * sizeof(PlanEntry));
    ahead = take(rows * sizeof(std::uint64_t));
    ranges = take(rows * kMaxArenas * sizeof(ArenaRange));
    status = take(rows);
    tries = take(rows);
    failed = take(rows);
    at = round_up(at, kPage);
    errors = take(rows * (1 + kSubstitutes) * sizeof(RowErrorCell));
    total = round_up(at, kPage);
  }
};

}  // namespace

template <std::size_t kTextBytes>
void BasicErrorCell<kTextBytes>::store(const ErrorInfo& info) noexcept {
  code = static_cast<std::uint32_t>(info.code);
  // Each part may take its share of the room that is left; the cause comes last and so has what
  // the others did not need.
  const std::array<const std::string*, 4> parts = {&info.path, &info.place, &info.remedy,
                                                   &info.cause};
  std::size_t used = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t length = std::min(parts[i]->size(), (kTextBytes - used) / (parts.size() - i));
    lengths[i] = static_cast<std::uint32_t>(length);
    std::memcpy(text + used, parts[i]->data(), length);
    used += length;
  }
}

template <std::size_t kTextBytes>
ErrorInfo BasicErrorCell<kTextBytes>::load() const {
  ErrorInfo info;
  info.code = static_cast<ErrorCode>(code);
  const std::array<std::string*, 4> parts = {&info.path, &info.place, &info.remedy, &info.cause};
  std::size_t used = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i]->assign(text + used, lengths[i]);
    used += lengths[i];
  }
  return info;
}

template struct BasicErrorCell<4076>;
template struct BasicErrorCell<1000>;

SlotControl::SlotControl(std::byte* base, std::size_t batch_size) noexcept {
  const SlotOffsets offsets(batch_size);
  header = reinterpret_cast<SlotHeader*>(base);
  done = reinterpret_cast<std::atomic<std::uint64_t>*>(base + offsets.done);
  owner = reinterpret_cast<std::atomic<std::uint32_t>*>(base + offsets.owner);
  plan = reinterpret_cast<PlanEntry*>(base + offsets.plan);
  ahead = reinterpret_cast<std::atomic<std::uint64_t>*>(base + offsets.ahead);
  ranges = reinterpret_cast<ArenaRange*>(base + offsets.ranges);
  status = reinterpret_cast<std::atomic<RowStatus>*>(base + offsets.status);
  tries = reinterpret_cast<std::uint8_t*>(base + offsets.tries);
  failed = reinterpret_cast<std::atomic<std::uint8_t>*>(base + offsets.failed);
  errors = reinterpret_cast<RowErrorCell*>(base + offsets.errors);
}

std::size_t SlotControl::bytes(std::size_t batch_size) noexcept {
  return SlotOffsets(batch_size).total;
}

bool SlotControl::reject_sample(std::size_t row, const ErrorInfo& error,
                                int worker) const noexcept {
  const std::uint8_t before = failed[row].load();
  this->error(row, before).error.store(error);
  this->error(row, before).worker = worker;
  failed[row].store(static_cast<std::uint8_t>(before + 1));
  tries[row] = 0;
  if (before < plan[row].substitutes) return true;
  status[row].store(RowStatus::kBad);
  return false;
}

bool SlotControl::rows_done() const noexcept {
  const std::size_t rows = header->rows;
  for (std::size_t word = 0; word * 64 < rows; ++word) {
    const std::size_t bits = std::min<std::size_t>(64, rows - word * 64);
    const std::uint64_t full = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
    if (done[word].load() != full) return false;
  }
  return true;
}

std::size_t ControlView::bytes(std::size_t batch_size) noexcept {
  return round_up(sizeof(Control), kPage) + kMaxSlots * SlotControl::bytes(batch_size);
}

SlotControl ControlView::slot(std::size_t s) const noexcept {
  return {base_ + round_up(sizeof(Control), kPage) + s * SlotControl::bytes(batch_size_),
          batch_size_};
}

#ifdef SHARDMILL_PROTOCOL_POINTS
void protocol_point(Control& control, std::uint32_t point) noexcept {
  static thread_local std::uint64_t state = 0;
  if (state == 0) state = mix_bits(static_cast<std::uint64_t>(gettid()));
  state = mix_bits(state);
  if (control.kill_at_point == point && state % 16 == 0) raise(SIGKILL);
  if (control.kill_one_in != 0 && state % control.kill_one_in == 0) raise(SIGKILL);
  if (control.delays != 0) {
    if ((state >> 32) % 97 == 0) sched_yield();
    if ((state >> 40) % 1999 == 0) usleep(static_cast<useconds_t>(state % 300));
  }
}
#endif

}  // namespace shardmill::internal
