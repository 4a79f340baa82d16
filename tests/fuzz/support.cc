// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/fuzz.h"

namespace shardmill::fuzz {

void fail(const std::string& what) {
  std::fprintf(stderr, "fuzz: %s\n", what.c_str());
  std::abort();
}

MemoryPath::MemoryPath(const std::string& bytes) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
  if (fd_ < 0) fail("no memory file");
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t written = write(fd_, bytes.data() + done, bytes.size() - done);
    if (written <= 0) fail("cannot fill the memory file");
    done += static_cast<std::size_t>(written);
  }
}

MemoryPath::~MemoryPath() { close(fd_); }

}  // namespace shardmill::fuzz

#ifdef SHARDMILL_FUZZ
// libFuzzer's side: it calls these.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)shardmill::fuzz::run(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  std::string input(reinterpret_cast<const char*>(data), size);
  shardmill::fuzz::mend(input, seed);
  size = std::min(input.size(), most);
  input.copy(reinterpret_cast<char*>(data), size);
  return size;
}
#endif
