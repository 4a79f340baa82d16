// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

namespace shardmill::internal {

/// Sleeps while `*word` is `value`, for `timeout_ms` at most. May return early for any reason.
/// Works across processes that share the word's memory (std::atomic::wait does not).
inline void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                       long timeout_ms) noexcept {
  const timespec timeout{timeout_ms / 1000, timeout_ms % 1000 * 1'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &timeout, nullptr, 0);
}

/// Changes `*word` and wakes everybody who sleeps on it.
inline void futex_bump(std::atomic<std::uint32_t>& word) noexcept {
  word.fetch_add(1);
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace shardmill::internal
