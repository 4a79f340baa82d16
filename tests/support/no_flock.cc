// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program, this makes flock(2) fail as on filesystems that do not have it.
#include <cerrno>

extern "C" int flock(int /*fd*/, int /*operation*/) {
  errno = ENOSYS;
  return -1;
}
