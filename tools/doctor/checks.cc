// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/checks.h"

#include <fmt/format.h>
#include <shardmill/loader/system/cpus.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>

#include "tools/bench/machine.h"
#include "tools/console.h"

namespace shardmill::tools::doctor {
namespace {

constexpr std::uint64_t kMebibyte = 1024 * 1024;

Check look_at_cpus() {
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  const int usable = usable_cpus();
  Check check{"cpus", usable < online, {}, {}};
  check.found = fmt::format("{} usable of {}; {} for this rank of {} on this machine", usable,
                            online, cpu_share(), ranks_on_node());
  if (check.warning) {
    check.advice = fmt::format(
        "affinity or a control group's quota allows {}: more workers than that gain nothing where "
        "decoding binds",
        usable);
  }
  return check;
}

Check look_at_memory() {
  const std::uint64_t left = memory_share();
  Check check{"memory", left < 512 * kMebibyte, human_bytes(left) + " left for this rank", {}};
  if (check.warning) {
    check.advice = "batches count against this: use a smaller prefetch or a higher memory limit";
  }
  return check;
}

Check look_at_shm() {
  struct statvfs info = {};
  if (statvfs("/dev/shm", &info) != 0) return {"shm", false, "no /dev/shm; not needed here", {}};
  const std::uint64_t bytes = std::uint64_t{info.f_blocks} * info.f_frsize;
  Check check{"shm", bytes < 1024 * kMebibyte, human_bytes(bytes) + " in /dev/shm", {}};
  if (check.warning) {
    check.advice = "harmless here; PyTorch's DataLoader needs more (docker run --shm-size)";
  }
  return check;
}

Check look_at_open_files() {
  struct rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  const bool unlimited = limit.rlim_cur == RLIM_INFINITY;
  Check check{"open_files", !unlimited && limit.rlim_cur < 1024, {}, {}};
  check.found = unlimited ? std::string("unlimited") : fmt::format("at most {}", limit.rlim_cur);
  if (check.warning) check.advice = "raise it: ulimit -n 4096";
  return check;
}

Check look_at_openmp() {
  const char* const text = std::getenv("OMP_NUM_THREADS");
  const bool set = text != nullptr && *text != '\0';
  Check check{"openmp", set && std::atoi(text) > usable_cpus(), {}, {}};
  check.found = set ? fmt::format("OMP_NUM_THREADS={}", text) : "OMP_NUM_THREADS is not set";
  if (check.warning) {
    check.advice = fmt::format("more threads than CPUs: set it to at most {}; workers use one each",
                               usable_cpus());
  }
  return check;
}

}  // namespace

std::vector<Check> look_around(const std::string& path) {
  std::vector<Check> checks = {look_at_cpus(), look_at_memory(), look_at_shm(),
                               look_at_open_files(), look_at_openmp()};
  if (!path.empty()) {
    Check check{"disk", false, bench::this_machine(path).disk, {}};
    check.warning = check.found.starts_with("nfs") || check.found.starts_with("cifs");
    if (check.warning) check.advice = "copy LMDB shards to a local disk, or use tar";
    checks.push_back(check);
  }
  return checks;
}

}  // namespace shardmill::tools::doctor
