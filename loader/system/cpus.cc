// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <shardmill/loader/system/cpus.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>
#include <string>

namespace shardmill {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

// Returns a control file's first number; kNoLimit if it is absent or says "max".
std::uint64_t read_number(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t value = 0;
  return in >> value ? value : kNoLimit;
}

// Calls `look` with the folder of this process's control group and of each of its ancestors, for
// version 2 (controller "") and for the version 1 hierarchy that has `controller`.
void for_each_group(const std::string& controller,
                    const std::function<void(const fs::path&, bool v2)>& look) {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool v2 = controllers == ",,";
    if (!v2 && controllers.find("," + controller + ",") == std::string::npos) continue;
    fs::path mount = "/sys/fs/cgroup";
    if (!v2) {
      mount /=
          fs::exists(mount / controller) ? controller : line.substr(first + 1, second - first - 1);
    } else if (fs::exists(mount / "unified")) {
      mount /= "unified";
    }
    // In a container the path names the host's view: the mount point itself is then the group.
    fs::path group = line.substr(second + 1);
    for (;; group = group.parent_path()) {
      look(mount / group.relative_path(), v2);
      if (group == group.root_path() || group.empty()) break;
    }
  }
}

double quota_cpus() {
  double cpus = std::numeric_limits<double>::infinity();
  for_each_group("cpu", [&](const fs::path& group, bool v2) {
    double quota = -1;
    double period = 0;
    if (v2) {
      std::ifstream in(group / "cpu.max");
      if (!(in >> quota >> period)) return;  // "max 100000"
    } else {
      std::ifstream(group / "cpu.cfs_quota_us") >> quota;
      std::ifstream(group / "cpu.cfs_period_us") >> period;
    }
    if (quota > 0 && period > 0) cpus = std::min(cpus, quota / period);
  });
  return cpus;
}

int affinity_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

// Counts the CPUs in a list such as "0-3,8"; 0 for anything else.
int count_list(const std::string& text) {
  int count = 0;
  std::istringstream in(text);
  for (std::string range; std::getline(in, range, ',');) {
    int first = 0;
    int last = 0;
    const int numbers = std::sscanf(range.c_str(), "%d-%d", &first, &last);
    if (numbers < 1) return 0;
    count += numbers == 2 ? std::max(0, last - first + 1) : 1;
  }
  return count;
}

// CPUs that this process's control group may use, or else that the machine has.
int present_cpus() {
  int cpus = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  for_each_group("cpuset", [&](const fs::path& group, bool v2) {
    std::ifstream in(group / (v2 ? "cpuset.cpus.effective" : "cpuset.effective_cpus"));
    std::string text;
    if (!std::getline(in, text)) return;
    if (const int count = count_list(text); count > 0) cpus = std::min(cpus, count);
  });
  return cpus;
}

std::uint64_t machine_available() {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kib = 0;
    if (words >> name >> kib && name == "MemAvailable:") return kib * 1024;
  }
  return kNoLimit;
}

}  // namespace

int usable_cpus() {
  const int affinity = affinity_cpus();
  const double quota = std::ceil(quota_cpus());
  return std::max(1, quota < affinity ? static_cast<int>(quota) : affinity);
}

int ranks_on_node() {
  for (const char* name : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                           "SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"}) {
    const char* const text = std::getenv(name);
    if (text == nullptr) continue;
    // Numbers between commas; one in brackets says on how many nodes.
    long most = 0;
    for (const char* at = text; *at != '\0'; at = at + std::strcspn(at, ",") + 1) {
      most = std::max(most, std::strtol(at, nullptr, 10));
      if (at[std::strcspn(at, ",")] == '\0') break;
    }
    if (most >= 1 && most <= 100'000) return static_cast<int>(most);
  }
  return 1;
}

int cpu_share() {
  const int ranks = ranks_on_node();
  const int affinity = affinity_cpus();
  // Masks that all fit side by side into what there is were made for one rank each.
  const bool bound = affinity * ranks <= present_cpus();
  const double share = bound ? affinity : affinity / ranks;
  return std::max(1, static_cast<int>(std::min(share, std::ceil(quota_cpus()) / ranks)));
}

std::uint64_t available_memory() {
  std::uint64_t available = machine_available();
  for_each_group("memory", [&](const fs::path& group, bool v2) {
    const std::uint64_t limit = read_number(group / (v2 ? "memory.max" : "memory.limit_in_bytes"));
    const std::uint64_t used =
        read_number(group / (v2 ? "memory.current" : "memory.usage_in_bytes"));
    if (limit == kNoLimit || used == kNoLimit) return;
    available = std::min(available, limit - std::min(used, limit));
  });
  return available;
}

std::uint64_t memory_share() {
  return available_memory() / static_cast<std::uint64_t>(ranks_on_node());
}

}  // namespace shardmill
