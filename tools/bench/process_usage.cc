// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/process_usage.h"

#include <time.h>

#include <fstream>
#include <string>

namespace shardmill::tools::bench {

namespace {

// Returns the number behind `label` in /proc/PID/FILE.
std::optional<std::uint64_t> read_entry(pid_t pid, const char* file, const std::string& label) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/" + file);
  for (std::string word; in >> word;) {
    std::uint64_t value = 0;
    if (word == label && in >> value) return value;
  }
  return std::nullopt;
}

std::optional<double> cpu_seconds(pid_t pid) {
  clockid_t clock = 0;
  timespec time{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) return {};
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

template <class Number>
void add(std::optional<Number>& sum, std::optional<Number> value) {
  sum = sum && value ? std::optional<Number>(*sum + *value) : std::nullopt;
}

}  // namespace

ProcessUsage usage_of(const std::vector<pid_t>& pids) {
  ProcessUsage usage{0.0, 0, 0};
  for (const pid_t pid : pids) {
    add(usage.cpu_s, cpu_seconds(pid));
    add(usage.read_bytes, read_entry(pid, "io", "read_bytes:"));
    add(usage.read_calls, read_entry(pid, "io", "syscr:"));
  }
  return usage;
}

std::optional<std::uint64_t> pss_of(const std::vector<pid_t>& pids) {
  std::optional<std::uint64_t> kib = 0;
  for (const pid_t pid : pids) add(kib, read_entry(pid, "smaps_rollup", "Pss:"));
  if (kib) *kib *= 1024;
  return kib;
}

pid_t parent_of(pid_t pid) {
  return static_cast<pid_t>(read_entry(pid, "status", "PPid:").value_or(0));
}

}  // namespace shardmill::tools::bench
