// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include "loader/internal/shared.h"

namespace shardmill::internal {

/// How often the nursery looks at its parent and at hanging workers.
inline constexpr int kTickMs = 100;

/// The life of the nursery, the small process that the trainer forks first: it forks the scout,
/// then workers on request, reaps them, recovers what they leave unfinished and replaces them.
/// Ends when `socket` closes or the parent process is no longer `parent`; workers end with it.
[[noreturn]] void run_nursery(Shared& shared, int socket, pid_t parent);

/// The life of a worker.
[[noreturn]] void run_worker(Shared& shared, std::uint32_t serial, std::size_t row, pid_t nursery);

/// The life of the scout: opens the dataset, resolves the outputs, writes the index.
[[noreturn]] void run_scout(Shared& shared, pid_t nursery);

}  // namespace shardmill::internal
