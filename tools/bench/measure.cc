// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/measure.h"

#include <shardmill/loader/loader.h>
#include <shardmill/loader/system/cpus.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "tools/bench/ceilings.h"
#include "tools/bench/figures.h"
#include "tools/bench/process_usage.h"

namespace shardmill::tools::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kWarmUpSeconds = 0.5;  // at most; a quarter of the measured time if that is less
constexpr double kCeilingSeconds = 1;   // likewise at most, half of it
constexpr double kStartSeconds = 0.3;   // about what a loader needs to start and to end

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

double warm_up_seconds(const Settings& settings) {
  return std::min(kWarmUpSeconds, settings.seconds / 4);
}

double ceiling_seconds(const Settings& settings) {
  return std::min(kCeilingSeconds, settings.seconds / 2);
}

LoaderOptions loader_options(const Subject& subject, int workers, const Settings& settings) {
  LoaderOptions options;
  options.outputs = subject.outputs;
  options.batch_size = settings.batch_size;
  options.shuffle = settings.shuffle;
  options.seed = 1;
  options.decode = settings.mode;
  options.num_workers = workers;
  return options;
}

// The sums of all workers.
WorkerStats total_of(const LoaderStats& stats) {
  WorkerStats total;
  for (const WorkerStats& worker : stats.workers) {
    total.samples += worker.samples;
    total.bytes += worker.bytes;
    total.read_ns += worker.read_ns;
    total.idle_ns += worker.idle_ns;
  }
  return total;
}

// This process, the workers and the nursery between them.
std::vector<pid_t> processes_of(const LoaderStats& stats, int workers) {
  std::vector<pid_t> pids = {getpid()};
  if (workers == 0) return pids;
  for (const WorkerStats& worker : stats.workers) pids.push_back(worker.pid);
  if (const pid_t nursery = parent_of(pids.back()); nursery > 1) pids.push_back(nursery);
  return pids;
}

// Counters at one moment; figures are made of two of them.
struct Moment {
  Clock::time_point time;
  LoaderStats stats;
  ProcessUsage usage;

  Moment(const Loader& loader, const std::vector<pid_t>& pids)
      : time(Clock::now()), stats(loader.stats()), usage(usage_of(pids)) {}
};

template <class Number>
std::optional<double> per_sample(std::optional<Number> begin, std::optional<Number> end,
                                 double samples, double factor = 1) {
  if (!begin || !end || *end < *begin) return std::nullopt;
  return static_cast<double>(*end - *begin) * factor / samples;
}

// One loader being consumed.
class Consumer {
 public:
  Consumer(const Subject& subject, int workers, const Settings& settings, RunNumber run,
           const Observer& observer)
      : workers_(workers),
        phase_("run " + std::to_string(run.number) + " of " + std::to_string(run.of)),
        observer_(observer),
        begin_(Clock::now()),
        loader_(subject.spec, loader_options(subject, workers, settings)) {
    take();
    figures_.first_batch_ms = seconds_between(begin_, last_) * 1e3;
  }

  RunFigures run(const Settings& settings) {
    const double warm_up = warm_up_seconds(settings);
    for (const auto begin = last_; seconds_between(begin, last_) < warm_up;) take();
    const std::vector<pid_t> pids = processes_of(loader_.stats(), workers_);
    const Moment begin(loader_, pids);
    figures_.batch_ms.clear();
    delivered_samples_ = delivered_bytes_ = 0;
    in_next_ = 0;
    last_ = begin.time;
    while (seconds_between(begin.time, last_) < settings.seconds) take();
    finish(begin, Moment(loader_, pids));
    if (const auto pss = pss_of(pids)) figures_.pss_bytes = static_cast<double>(*pss);
    return std::move(figures_);
  }

 private:
  // Takes one batch, of the next epoch if this one is over.
  void take() {
    batch_ = Batch();  // its slot goes back before the next is waited for, as in a training loop
    const auto begin = Clock::now();
    while (!loader_.next(batch_)) loader_.start_epoch(++epoch_);
    const auto end = Clock::now();
    figures_.batch_ms.push_back(seconds_between(last_, end) * 1e3);
    in_next_ += seconds_between(begin, end);
    last_ = end;
    delivered_samples_ += static_cast<double>(batch_.size());
    for (const BatchOutput& output : batch_.outputs()) {
      delivered_bytes_ += static_cast<double>(output.data.size());
    }
    all_samples_ += batch_.size();
    check_in(observer_, phase_, all_samples_, 0);
  }

  void finish(const Moment& begin, const Moment& end) {
    const double seconds = seconds_between(begin.time, last_);
    const WorkerStats from = total_of(begin.stats);
    const WorkerStats to = total_of(end.stats);
    const double produced =
        static_cast<double>(std::max<std::uint64_t>(1, to.samples - from.samples));
    const double all_ns = seconds * 1e9 * std::max(1, workers_);
    figures_.samples_per_s = delivered_samples_ / seconds;
    figures_.delivered_bytes_per_s = delivered_bytes_ / seconds;
    figures_.stored_bytes_per_s =
        static_cast<double>(to.bytes - from.bytes) / produced * figures_.samples_per_s;
    figures_.cpu_ms_per_sample = per_sample(begin.usage.cpu_s, end.usage.cpu_s, produced, 1e3);
    figures_.io_bytes_per_sample =
        per_sample(begin.usage.read_bytes, end.usage.read_bytes, produced);
    figures_.io_calls_per_sample =
        per_sample(begin.usage.read_calls, end.usage.read_calls, produced);
    // Without workers next() does the work itself: all of it is waiting.
    const double waited = workers_ == 0
                              ? in_next_
                              : static_cast<double>(end.stats.wait_ns - begin.stats.wait_ns) * 1e-9;
    figures_.wait_fraction = std::min(1.0, waited / seconds);
    figures_.read_share = static_cast<double>(to.read_ns - from.read_ns) / all_ns;
    figures_.idle_share = static_cast<double>(to.idle_ns - from.idle_ns) / all_ns;
  }

  int workers_;
  std::string phase_;
  const Observer& observer_;
  Clock::time_point begin_;
  Loader loader_;
  Batch batch_;
  std::uint64_t epoch_ = 0;
  std::uint64_t all_samples_ = 0;
  Clock::time_point last_ = begin_;  // when the newest batch came
  double delivered_samples_ = 0;
  double delivered_bytes_ = 0;
  double in_next_ = 0;
  RunFigures figures_;
};

}  // namespace

RunFigures measure_run(const Subject& subject, int workers, const Settings& settings, RunNumber run,
                       const Observer& observer) {
  return Consumer(subject, workers, settings, run, observer).run(settings);
}

Measurement measure(const std::vector<Subject>& subjects, const Settings& settings,
                    const Observer& observer) {
  Measurement result;
  std::optional<DecodeLoop> decode_loop;
  for (const Subject& subject : subjects) {
    if (!decode_loop && !subject.decode.none) decode_loop.emplace(subject);
    for (const int workers : settings.workers) result.series.push_back({&subject, workers, {}});
  }
  std::vector<double> memcpy_rates;
  std::vector<double> decode_rates;
  RunNumber number{1, settings.repeats * static_cast<int>(result.series.size())};
  for (int repeat = 0; repeat < settings.repeats; ++repeat) {
    memcpy_rates.push_back(measure_memcpy(usable_cpus(), ceiling_seconds(settings) / 2));
    if (decode_loop)
      decode_rates.push_back(decode_loop->measure(ceiling_seconds(settings), observer));
    for (const int workers : settings.workers) {
      for (Series& series : result.series) {
        if (series.workers != workers) continue;
        series.runs.push_back(measure_run(*series.subject, workers, settings, number, observer));
        ++number.number;
      }
    }
  }
  result.ceilings.memcpy_gb_per_s = median(memcpy_rates);
  if (decode_loop) result.ceilings.decode_samples_per_s = median(decode_rates);
  return result;
}

double expected_seconds(std::size_t subjects, const Settings& settings) {
  const double run = settings.seconds + warm_up_seconds(settings) + kStartSeconds;
  const auto runs = static_cast<double>(subjects * settings.workers.size());
  return settings.repeats * (runs * run + 1.5 * ceiling_seconds(settings));
}

}  // namespace shardmill::tools::bench
