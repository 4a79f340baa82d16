// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shardmill {

/// Returns how many CPUs this process may use: the smaller of its affinity mask and its control
/// group's quota (version 1 and 2, all levels), rounded up; at least 1.
int usable_cpus();

/// Returns how many bytes of memory this process can still get: the smaller of what the machine
/// has available and what its control group's limit (version 1 and 2, all levels) leaves.
std::uint64_t available_memory();

}  // namespace shardmill
