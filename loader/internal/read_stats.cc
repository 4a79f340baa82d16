// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/read_stats.h"

#include <algorithm>
#include <chrono>

namespace shardmill {

std::string_view verdict_name(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::kUnknown:
      break;
    case Verdict::kConsumer:
      return "consumer";
    case Verdict::kDecode:
      return "decode";
    case Verdict::kRead:
      return "read";
  }
  return "unknown";
}

namespace internal {

namespace {

constexpr std::uint64_t kLeastBatches = 8;
constexpr double kConsumerWait = 0.05;  // of the time: less does not hold training up
constexpr double kColdFaults = 0.02;    // a sample: mapped data come from the disk
constexpr double kBlockedShare = 0.4;   // of the work's time that no CPU was used in

Verdict verdict_of(const LoaderStats& stats) {
  if (stats.batches < kLeastBatches || stats.total_ns == 0) return Verdict::kUnknown;
  WorkerStats all;
  for (const WorkerStats& worker : stats.workers) {
    all.samples += worker.samples;
    all.read_ns += worker.read_ns;
    all.produce_ns += worker.produce_ns;
    all.cpu_ns += worker.cpu_ns;
    all.faults += worker.faults;
  }
  if (all.samples == 0) return Verdict::kUnknown;
  if (static_cast<double>(stats.wait_ns) < kConsumerWait * static_cast<double>(stats.total_ns)) {
    return Verdict::kConsumer;
  }
  // Mapped bytes are fetched when they are first looked at, which is while they are decoded.
  const double work = static_cast<double>(all.read_ns + all.produce_ns);
  const double blocked = 1 - static_cast<double>(all.cpu_ns) / std::max(work, 1.0);
  const bool cold =
      static_cast<double>(all.faults) > kColdFaults * static_cast<double>(all.samples);
  const bool read = all.read_ns > all.produce_ns || (cold && blocked > kBlockedShare);
  return read ? Verdict::kRead : Verdict::kDecode;
}

}  // namespace

LoaderStats read_stats(const StatsFile& file) {
  LoaderStats stats;
  for (std::size_t row = 0; row < file.workers.load(); ++row) {
    const StatsRow& from = file.rows[row];
    stats.workers.push_back({.pid = from.pid.load(),
                             .samples = from.samples.load(),
                             .bytes = from.bytes.load(),
                             .read_ns = from.read_ns.load(),
                             .produce_ns = from.produce_ns.load(),
                             .idle_ns = from.idle_ns.load(),
                             .cpu_ns = from.cpu_ns.load(),
                             .faults = from.faults.load(),
                             .slowest_ns = from.slowest_ns.load(),
                             .slowest_sample = from.slowest_sample.load(),
                             .truncated = from.truncated.load()});
    stats.truncated += from.truncated.load();
  }
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  stats.wanted_workers = static_cast<int>(file.wanted_workers.load());
  stats.batches = file.batches.load();
  stats.samples = file.samples.load();
  stats.wait_ns = file.wait_ns.load();
  stats.total_ns = static_cast<std::uint64_t>(now) - file.start_ns;
  stats.slots = file.slots.load();
  stats.decode = static_cast<DecodeMode>(file.decode);
  stats.memory_bytes = stats.slots * file.slot_bytes.load();
  stats.verdict = verdict_of(stats);
  return stats;
}

void read_deaths(const Control& control, LoaderStats& stats) {
  stats.deaths = control.deaths.load();
  stats.redone = control.redone.load();
  const std::uint64_t kept = std::min<std::uint64_t>(stats.deaths, kMaxDeaths);
  for (std::uint64_t number = stats.deaths - kept; number < stats.deaths; ++number) {
    const DeathRecord& death = control.death_log[number % kMaxDeaths];
    stats.last_deaths.push_back({death.pid, death.wait_status, death.timed_out != 0,
                                 death.had_sample != 0, death.sample, death.max_rss_kib * 1024});
  }
}

}  // namespace internal
}  // namespace shardmill
