// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

namespace shardmill::internal {

/// Makes a freshly forked child independent of what its parent was doing: default signal
/// handlers, an empty mask, the signals that are meant for the whole group ignored (Ctrl-C and
/// schedulers signal every process; the trainer decides), inherited stdio buffers dropped, stdin
/// from /dev/null, one OpenMP thread, no visible CUDA device. Such a child ends by _exit only.
void clean_child() noexcept;

/// Makes this thread use no OpenMP threads but itself, where an OpenMP library is loaded.
void use_one_openmp_thread() noexcept;

/// Makes this process die with its parent, which must be `parent`; ends it at once if that parent
/// is gone already. For children of single-threaded processes: the signal fires when the *thread*
/// that forked ends.
void die_with_parent(pid_t parent) noexcept;

/// Asks for the scheduler's turns for batch work: this process does not interrupt others when it
/// wakes, and is interrupted less, so that more workers than CPUs cost little.
void prefer_long_turns() noexcept;

/// Lets the kernel's out-of-memory killer prefer this process to its parent.
void raise_oom_score() noexcept;

}  // namespace shardmill::internal
