// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/report.h"

#include <fmt/format.h>
#include <shardmill/formats/error.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace shardmill::tools::bench {

namespace {

using Json = nlohmann::ordered_json;

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(escape(text)); }

Json dataset_json(const Subject& subject) {
  return {{"path", escape(subject.name)},
          {"format", subject.format},
          {"stored_bytes", subject.stored_bytes},
          {"files", subject.files},
          {"convert_seconds", or_null(subject.convert_seconds)},
          {"content_digest", or_null(subject.content_digest)}};
}

Json run_json(const Row& row, const Settings& settings) {
  return {{"dataset", escape(row.subject->name)},
          {"format", row.subject->format},
          {"workers", row.workers},
          {"cache", "warm"},
          {"decode", row.subject->decode.text()},
          {"shuffle", shuffle_name(settings.shuffle)},
          {"step_ms", 0},
          {"samples_per_s", row.samples_per_s},
          {"mb_per_s", row.mb_per_s},
          {"first_batch_ms", row.first_batch_ms},
          {"batch_ms_p50", row.batch_ms_p50},
          {"batch_ms_p99", row.batch_ms_p99},
          {"cpu_ms_per_sample", or_null(row.cpu_ms_per_sample)},
          {"io_bytes_per_sample", or_null(row.io_bytes_per_sample)},
          {"io_calls_per_sample", or_null(row.io_calls_per_sample)},
          {"pss_mb", or_null(row.pss_mb)},
          {"wait_fraction", row.wait_fraction},
          {"percent_of_ceiling", row.percent_of_ceiling},
          {"bound_by", row.bound_by},
          {"spread", row.spread}};
}

std::string whole(double value) {
  return human_count(static_cast<std::uint64_t>(std::llround(std::max(0.0, value))));
}

std::size_t name_width(const Report& report) {
  std::size_t width = 7;
  for (const Subject& subject : report.subjects) {
    width = std::max(width, escape(subject.name).size());
  }
  return width;
}

std::string row_line(const Row& row, std::size_t width) {
  const std::string cpu =
      row.cpu_ms_per_sample ? fmt::format("{:.3f}", *row.cpu_ms_per_sample) : "-";
  const std::string pss = row.pss_mb ? fmt::format("{:.0f}", *row.pss_mb) : "-";
  return fmt::format(
      "{:<{}} {:>7} {:>10} {:>5.1f}% {:>8.1f} {:>9.1f} {:>8.2f} {:>8.2f} {:>9} {:>7} {:>4.0f}% "
      "{:>7.0f}%  {}",
      escape(row.subject->name), width, row.workers, whole(row.samples_per_s), row.spread * 100,
      row.mb_per_s, row.first_batch_ms, row.batch_ms_p50, row.batch_ms_p99, cpu, pss,
      row.wait_fraction * 100, row.percent_of_ceiling, row.bound_by);
}

}  // namespace

Json to_json(const Report& report) {
  Json json;
  json["machine"] = {{"cpus", report.machine.cpus},
                     {"memory_bytes", report.machine.memory_bytes},
                     {"disk", or_null(report.machine.disk)},
                     {"cpu_model", or_null(report.machine.cpu_model)},
                     {"kernel", or_null(report.machine.kernel)}};
  json["ceiling"] = {
      {"decode_samples_per_s_per_core", or_null(report.ceilings.decode_samples_per_s)},
      {"memcpy_gb_per_s", report.ceilings.memcpy_gb_per_s},
      {"disk_seq_mb_per_s", nullptr},
      {"disk_random_iops", nullptr}};
  json["datasets"] = Json::array();
  for (const Subject& subject : report.subjects) json["datasets"].push_back(dataset_json(subject));
  json["runs"] = Json::array();
  for (const Row& row : report.rows) json["runs"].push_back(run_json(row, report.settings));
  json["recommendation"] = report.recommendation;
  json["command"] = command_line();
  json["version"] = SHARDMILL_VERSION;
  return json;
}

void print(const Report& report, Console& console) {
  const std::size_t width = name_width(report);
  console.print("take " + report.recommendation);
  console.print("");
  console.print(fmt::format("{:<{}} {:>7} {:>10} {:>10} {:>9} {:>10}", "dataset", width, "format",
                            "samples", "on disk", "files", "converted"));
  for (const Subject& subject : report.subjects) {
    const std::string converted =
        subject.convert_seconds ? fmt::format("{:.1f} s", *subject.convert_seconds) : "-";
    console.print(fmt::format("{:<{}} {:>7} {:>10} {:>10} {:>9} {:>10}", escape(subject.name),
                              width, subject.format, human_count(subject.samples),
                              human_bytes(subject.stored_bytes), human_count(subject.files),
                              converted));
  }
  console.print("");
  console.print(
      fmt::format("{:<{}} {:>7} {:>10} {:>6} {:>8} {:>9} {:>8} {:>8} {:>9} {:>7} {:>5} "
                  "{:>8}  {}",
                  "dataset", width, "workers", "samples/s", "spread", "MB/s", "first ms", "p50 ms",
                  "p99 ms", "CPU ms", "PSS MB", "wait", "ceiling", "bound by"));
  for (const Row& row : report.rows) console.print(row_line(row, width));
  console.print("");
  if (report.ceilings.decode_samples_per_s) {
    console.print(
        fmt::format("ceilings: a bare decoding loop does {} samples/s per core; memcpy "
                    "{:.1f} GB/s",
                    whole(*report.ceilings.decode_samples_per_s), report.ceilings.memcpy_gb_per_s));
  } else {
    console.print(fmt::format("ceiling: memcpy {:.1f} GB/s", report.ceilings.memcpy_gb_per_s));
  }
  console.print(fmt::format("medians of {} interleaved runs of {:g} s; batches of {}; {} CPUs",
                            report.settings.repeats, report.settings.seconds,
                            report.settings.batch_size, report.machine.cpus));
}

}  // namespace shardmill::tools::bench
