// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace shardmill::tools::doctor {

/// One thing looked at.
struct Check {
  std::string name;
  bool warning = false;
  std::string found;   ///< What was seen.
  std::string advice;  ///< What to do; empty: nothing.
};

/// Looks at CPUs, memory, /dev/shm, open files, OpenMP threads and, unless `path` is empty, at the
/// file system of `path`.
std::vector<Check> look_around(const std::string& path);

}  // namespace shardmill::tools::doctor
