// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shardmill::fuzz {

/// What a fuzz target defines. It is run by the driver here (mutations of seeds, a fixed number of
/// them, in every CI run) or, with -DSHARDMILL_FUZZ=ON and clang, by libFuzzer (scripts/fuzz).

/// Returns valid inputs to start from.
std::vector<std::string> seeds();

/// Gives the code under test one input. Must return whatever the input is: true if the code took
/// it as valid. Calls fail() where the code did something that it promises not to.
bool run(const std::string& input);

/// Makes a mutated input worth looking at, for example by mending checksums. `random` is a number
/// to decide by. May do nothing.
void mend(std::string& input, std::uint64_t random);

/// Ends the program with a message: a finding.
[[noreturn]] void fail(const std::string& what);

/// A file in memory with the given bytes, and its path. One at a time.
class MemoryPath {
 public:
  explicit MemoryPath(const std::string& bytes);
  ~MemoryPath();
  MemoryPath(const MemoryPath&) = delete;
  MemoryPath& operator=(const MemoryPath&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace shardmill::fuzz
