// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/console.h"

namespace shardmill::tools::bench {

namespace {

constexpr double kLeastWait = 0.05;     // less waiting: the consumer is the slow one
constexpr double kLeastBusy = 0.5;      // workers busier than that bind, not what is between
constexpr double kFromDisk = 0.3;       // share of the stored bytes that came from storage
constexpr double kNoisy = 0.15;         // spread that makes a comparison doubtful
constexpr double kWorthAWorker = 0.03;  // gain that is worth taking more workers

template <class Member>
std::vector<double> values(const Series& series, Member member) {
  std::vector<double> all;
  for (const RunFigures& run : series.runs) all.push_back(run.*member);
  return all;
}

std::optional<double> median_of(const Series& series, std::optional<double> RunFigures::*member) {
  std::vector<double> all;
  for (const RunFigures& run : series.runs) {
    if (!(run.*member)) return std::nullopt;
    all.push_back(*(run.*member));
  }
  return median(all);
}

std::string verdict(const Series& series, const Row& row) {
  if (row.wait_fraction < kLeastWait) return "consumer";
  const double read = median(values(series, &RunFigures::read_share));
  const double busy = 1 - median(values(series, &RunFigures::idle_share));
  if (busy < kLeastBusy) return "loader";
  // Mapped bytes are fetched when they are first looked at, which is while they are decoded.
  const double stored = row.mb_per_s * 1e6 / row.samples_per_s;
  if (row.io_bytes_per_sample.value_or(0) > kFromDisk * stored || read > busy / 2) return "io";
  return row.subject->decode.none ? "memory" : "decode";
}

double percent(const Series& series, const Row& row, const Ceilings& ceilings, int cpus) {
  if (row.subject->decode.none) {
    const double copied = median(values(series, &RunFigures::delivered_bytes_per_s));
    return 100 * copied / 1e9 / ceilings.memcpy_gb_per_s;
  }
  const int cores = std::clamp(row.workers, 1, cpus);
  const double possible = ceilings.decode_samples_per_s.value_or(0) * cores;
  return possible > 0 ? 100 * row.samples_per_s / possible : 0;
}

Row make_row(const Series& series, const Ceilings& ceilings, int cpus) {
  Row row;
  row.subject = series.subject;
  row.workers = series.workers;
  const std::vector<double> rates = values(series, &RunFigures::samples_per_s);
  row.samples_per_s = median(rates);
  row.mb_per_s = median(values(series, &RunFigures::stored_bytes_per_s)) / 1e6;
  row.first_batch_ms = median(values(series, &RunFigures::first_batch_ms));
  std::vector<double> batch_ms;
  for (const RunFigures& run : series.runs) {
    batch_ms.insert(batch_ms.end(), run.batch_ms.begin(), run.batch_ms.end());
  }
  row.batch_ms_p50 = median(batch_ms);
  row.batch_ms_p99 = quantile(batch_ms, 0.99);
  row.cpu_ms_per_sample = median_of(series, &RunFigures::cpu_ms_per_sample);
  row.io_bytes_per_sample = median_of(series, &RunFigures::io_bytes_per_sample);
  row.io_calls_per_sample = median_of(series, &RunFigures::io_calls_per_sample);
  row.pss_mb = median_of(series, &RunFigures::pss_bytes);
  if (row.pss_mb) *row.pss_mb /= 1e6;
  row.wait_fraction = median(values(series, &RunFigures::wait_fraction));
  const auto [low, high] = std::minmax_element(rates.begin(), rates.end());
  row.spread = (*high - *low) / row.samples_per_s;
  row.percent_of_ceiling = percent(series, row, ceilings, cpus);
  row.bound_by = verdict(series, row);
  return row;
}

// Returns the row of `subject` with the fewest workers that is hardly slower than its fastest.
const Row* knee(const std::vector<Row>& rows, const Subject* subject) {
  double fastest = 0;
  for (const Row& row : rows) {
    if (row.subject == subject) fastest = std::max(fastest, row.samples_per_s);
  }
  for (const Row& row : rows) {
    if (row.subject == subject && row.samples_per_s >= fastest * (1 - kWorthAWorker)) return &row;
  }
  return nullptr;
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  return values[std::clamp<std::size_t>(static_cast<std::size_t>(rank), 1, values.size()) - 1];
}

std::vector<Row> make_rows(const Measurement& measurement, int cpus) {
  std::vector<Row> rows;
  for (const Series& series : measurement.series) {
    rows.push_back(make_row(series, measurement.ceilings, cpus));
  }
  return rows;
}

std::string recommend(const std::vector<Row>& rows) {
  const Row* best = nullptr;
  for (const Row& row : rows) {
    const Row* candidate = knee(rows, row.subject);
    if (best == nullptr || candidate->samples_per_s > best->samples_per_s) best = candidate;
  }
  std::string text = fmt::format(
      "{} ({}) with {} worker{}: {} samples/s, {} on disk; bound by {}, at {:.0f} % of its "
      "ceiling",
      escape(best->subject->name), best->subject->format, best->workers,
      best->workers == 1 ? "" : "s",
      human_count(static_cast<std::uint64_t>(std::llround(best->samples_per_s))),
      human_bytes(best->subject->stored_bytes), best->bound_by, best->percent_of_ceiling);
  const Subject* last = nullptr;  // rows of one dataset stand together
  for (const Row& row : rows) {
    if (row.subject == best->subject || row.subject == last) continue;
    last = row.subject;
    text += fmt::format("; {:.2f} x {}", best->samples_per_s / knee(rows, last)->samples_per_s,
                        escape(last->name));
  }
  double spread = 0;
  for (const Row& row : rows) spread = std::max(spread, row.spread);
  if (spread > kNoisy) {
    text += fmt::format("; runs differed by up to {:.0f} %, so repeat this on a quieter machine",
                        spread * 100);
  }
  return text;
}

}  // namespace shardmill::tools::bench
