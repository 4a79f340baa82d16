// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace shardmill::tools::bench {

/// What a report says about where it was made.
struct Machine {
  int cpus = 1;                    ///< That this process may use.
  std::uint64_t memory_bytes = 0;  ///< Of the machine.
  std::string cpu_model;           ///< Empty: not known.
  std::string kernel;              ///< e.g. "Linux 6.1.0".
  std::string disk;                ///< File system and device of the data, e.g. "ext4 on /dev/sda".
};

/// Looks at this machine and at the file system that holds `path`.
Machine this_machine(const std::string& path);

/// Returns this program's arguments as one line that a shell takes.
std::string command_line();

}  // namespace shardmill::tools::bench
