// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/bench/measure.h"

namespace shardmill::tools::bench {

/// Returns the median (the mean of the middle two); 0 for no values.
double median(std::vector<double> values);
/// Returns the value that `share` of all values are not above; 0 for no values.
double quantile(std::vector<double> values, double share);

/// One row of the report: medians over the runs of a series.
struct Row {
  const Subject* subject = nullptr;
  int workers = 0;
  double samples_per_s = 0;
  double mb_per_s = 0;  ///< Stored payloads read, 10^6 bytes.
  double first_batch_ms = 0;
  double batch_ms_p50 = 0;
  double batch_ms_p99 = 0;
  std::optional<double> cpu_ms_per_sample;
  std::optional<double> io_bytes_per_sample;
  std::optional<double> io_calls_per_sample;
  std::optional<double> pss_mb;
  double wait_fraction = 0;
  double percent_of_ceiling = 0;
  std::string bound_by;  ///< "decode", "io", "memory", "loader" or "consumer".
  double spread = 0;     ///< (fastest - slowest run) / median.
};

/// Makes the rows, in the order of the series. `cpus` are those that may be used.
///
/// The ceiling of a row that decodes is the bare loop, once per core that the row can use; of a
/// row that copies, the machine's memcpy with all its cores.
std::vector<Row> make_rows(const Measurement& measurement, int cpus);

/// Says in words which dataset and how many workers to take, and why.
std::string recommend(const std::vector<Row>& rows);

}  // namespace shardmill::tools::bench
