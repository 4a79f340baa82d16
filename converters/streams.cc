// SPDX-License-Identifier: Apache-2.0
#include <shardmill/converters/streams.h>
#include <shardmill/formats/error.h>

#include <nlohmann/json.hpp>

#include "converters/internal/field_scan.h"
#include "formats/internal/stream_spec.h"

namespace shardmill {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kProgressEvery = 256;  // samples

// The one format that can be read so.
const Format& stream_format() { return find_format("tar"); }

std::string reason_of(const std::string& spec, std::size_t shards) {
  if (spec == "-") return "a tar on standard input, read in order";
  return std::to_string(shards) + " compressed tar" + (shards == 1 ? "" : "s") + ", read in order";
}

}  // namespace

bool is_stream(const std::string& spec) { return !internal::stream_paths(spec).empty(); }

ShardInfo visit_stream(const std::string& spec, const Observer& observer,
                       const VisitSample& visit) {
  ShardInfo info;
  Progress progress{"reading", 0, 0, 0, 0};
  SampleView sample;
  for (const fs::path& path : internal::stream_paths(spec)) {
    const auto source = open_source(path);
    const auto stream = stream_format().stream(*source);
    while (stream->next(sample)) {
      if (progress.samples % kProgressEvery == 0) {
        if (observer.progress) observer.progress(progress);
        if (observer.stop.stop_requested()) throw Interrupted();
      }
      if (!visit(progress.samples, sample, source->name())) return info;
      ++progress.samples;
      for (const FieldView& field : sample.fields) progress.bytes += field.bytes.size();
    }
    info.layout = stream->info().layout;
    for (const std::string& warning : stream->info().warnings) {
      info.warnings.push_back(escape(path.filename().string()) + ": " + warning);
    }
  }
  return info;
}

Inspection inspect_stream(const std::string& spec, const Observer& observer) {
  const std::vector<fs::path> paths = internal::stream_paths(spec);
  internal::FieldScan scan;
  const ShardInfo info = visit_stream(
      spec, observer, [&](std::uint64_t, const SampleView& sample, const std::string&) {
        scan.add(sample);
        return true;
      });
  Inspection out;
  out.format = stream_format().name();
  out.layout = info.layout;
  out.kind_reason = reason_of(spec, paths.size());
  out.order = scan.class_sorted() ? "class-sorted" : "mixed";
  out.shards = paths.size();
  out.samples = scan.samples();
  out.bytes = scan.bytes();
  out.fields = scan.fields();
  out.warnings = info.warnings;
  for (const std::string& line : scan.lint()) out.warnings.push_back(line);
  return out;
}

std::string describe_stream(const std::string& spec, bool hash) {
  const auto source = open_source(internal::stream_paths(spec).at(0));
  return stream_format().describe_stream(*source, hash);
}

}  // namespace shardmill
