// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shardmill {

/// Returns how many CPUs this process may use: the smaller of its affinity mask and its control
/// group's quota (version 1 and 2, all levels), rounded up; at least 1.
int usable_cpus();

/// Returns how many ranks run on this machine, as launchers say: LOCAL_WORLD_SIZE (torchrun),
/// OMPI_COMM_WORLD_LOCAL_SIZE (Open MPI), SLURM_STEP_TASKS_PER_NODE or SLURM_NTASKS_PER_NODE
/// (srun; "4(x2),3" counts as the largest, 4); else 1.
int ranks_on_node();

/// Returns how many CPUs are this rank's to use: usable_cpus() divided by the ranks on this
/// machine, at least 1. Where the launcher has bound each rank to CPUs of its own, those.
int cpu_share();

/// Returns how many bytes of memory this process can still get: the smaller of what the machine
/// has available and what its control group's limit (version 1 and 2, all levels) leaves.
std::uint64_t available_memory();

/// Returns this rank's part of available_memory().
std::uint64_t memory_share();

}  // namespace shardmill
