// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace shardmill::tools::bench {

/// What some processes have used since they began, added up. Nothing: the system does not tell,
/// for one of them at least.
struct ProcessUsage {
  std::optional<double> cpu_s;              ///< User and system time.
  std::optional<std::uint64_t> read_bytes;  ///< Fetched from storage; 0 when all was in memory.
  std::optional<std::uint64_t> read_calls;  ///< System calls that read.
};

ProcessUsage usage_of(const std::vector<pid_t>& pids);

/// Returns the proportional set size of the processes together, in bytes. Takes milliseconds.
std::optional<std::uint64_t> pss_of(const std::vector<pid_t>& pids);

/// Returns the parent of `pid`, or 0.
pid_t parent_of(pid_t pid);

}  // namespace shardmill::tools::bench
