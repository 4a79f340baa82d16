// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/machine.h"

#include <shardmill/loader/system/cpus.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tools/console.h"

namespace shardmill::tools::bench {

namespace {

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

std::string kernel() {
  utsname names{};
  return uname(&names) == 0 ? std::string(names.sysname) + " " + names.release : std::string();
}

// Looks the file system up by its device number, as mountinfo lists it:
// `36 35 98:0 /root /mount options - type source options`.
std::string disk_of(std::filesystem::path path) {
  struct stat status {};
  while (stat(path.empty() ? "." : path.c_str(), &status) != 0) {
    if (path.empty() || path == path.parent_path()) return {};
    path = path.parent_path();  // of a glob or brace range, say
  }
  const std::string device =
      std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev));
  std::ifstream in("/proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word;
    std::string number;
    words >> word >> word >> number;
    if (number != device) continue;
    while (words >> word && word != "-") continue;
    std::string type;
    std::string source;
    if (words >> type >> source) return type + " on " + source;
  }
  return {};
}

}  // namespace

Machine this_machine(const std::string& path) {
  Machine machine;
  machine.cpus = usable_cpus();
  const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
  machine.memory_bytes = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  machine.cpu_model = cpu_model();
  machine.kernel = kernel();
  machine.disk = disk_of(path);
  return machine;
}

std::string command_line() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::string line;
  for (std::string word; std::getline(in, word, '\0');) {
    line += (line.empty() ? "" : " ") + shell_word(word);
  }
  return line;
}

}  // namespace shardmill::tools::bench
