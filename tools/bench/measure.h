// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/subject.h"

namespace shardmill::tools::bench {

/// What one run of a loader showed. Times are of the measured stretch, which begins after the
/// first batch and a moment of warming up.
struct RunFigures {
  double samples_per_s = 0;
  double stored_bytes_per_s = 0;     ///< Payloads read.
  double delivered_bytes_per_s = 0;  ///< Rows of batches.
  double first_batch_ms = 0;         ///< From constructing the loader to its first batch.
  std::vector<double> batch_ms;      ///< Times from batch to batch.
  std::optional<double> cpu_ms_per_sample;
  std::optional<double> io_bytes_per_sample;
  std::optional<double> io_calls_per_sample;
  std::optional<double> pss_bytes;  ///< Of consumer, workers and nursery together.
  double wait_fraction = 0;         ///< Share of the time that the consumer waited.
  double read_share = 0;            ///< Share of the workers' time spent in readers.
  double idle_share = 0;            ///< Share spent waiting for work.
};

/// Which of all the runs one is, for progress.
struct RunNumber {
  int number = 1;
  int of = 1;
};

/// Loads `subject` with `workers` worker processes as fast as it comes, for settings.seconds.
RunFigures measure_run(const Subject& subject, int workers, const Settings& settings, RunNumber run,
                       const Observer& observer);

/// All runs of one dataset and number of workers.
struct Series {
  const Subject* subject = nullptr;
  int workers = 0;
  std::vector<RunFigures> runs;
};

/// What this machine can do at best, measured between the runs.
struct Ceilings {
  std::optional<double> decode_samples_per_s;  ///< Of one core; none if nothing is decoded.
  double memcpy_gb_per_s = 0;                  ///< Of all usable CPUs together.
};

struct Measurement {
  Ceilings ceilings;
  std::vector<Series> series;  ///< By dataset, then by workers.
};

/// Measures all combinations of datasets and workers, interleaved: every combination once, then
/// all again, so that whatever else the machine does meanwhile meets all of them alike.
Measurement measure(const std::vector<Subject>& subjects, const Settings& settings,
                    const Observer& observer);

/// Returns about how many seconds measure() takes.
double expected_seconds(std::size_t subjects, const Settings& settings);

}  // namespace shardmill::tools::bench
