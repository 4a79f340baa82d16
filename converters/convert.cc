// SPDX-License-Identifier: Apache-2.0
#include <shardmill/converters/convert.h>
#include <shardmill/converters/streams.h>
#include <shardmill/formats/error.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "converters/internal/destination.h"
#include "converters/internal/plan.h"
#include "converters/internal/spool.h"
#include "converters/internal/sum_file.h"
#include "converters/internal/task_pool.h"
#include "converters/internal/transform.h"
#include "converters/internal/wire.h"

namespace shardmill {

namespace fs = std::filesystem;

namespace {

using internal::ConvertPlan;
using internal::PlannedShard;
using internal::SourceSet;

constexpr std::uint64_t kLookAhead = 8;  // samples whose bytes are asked for in advance

// What a process tells about a shard that it has written.
struct WrittenShard {
  ManifestShard entry;
  std::uint64_t bytes = 0;  // on disk
  Digest digest;            // sum over its samples

  std::string pack() const {
    return internal::WireWriter()
        .text(entry.url)
        .number(entry.samples)
        .number(entry.filesize)
        .text(entry.xxh3)
        .number(bytes)
        .number(digest.high)
        .number(digest.low)
        .take();
  }
  static WrittenShard unpack(std::string_view packed) {
    internal::WireReader in(packed);
    WrittenShard shard;
    shard.entry.url = in.text();
    shard.entry.samples = in.number();
    shard.entry.filesize = in.number();
    shard.entry.xxh3 = in.text();
    shard.bytes = in.number();
    shard.digest.high = in.number();
    shard.digest.low = in.number();
    return shard;
  }
};

// Writes whole shards, one after the other. One per process.
class ShardWriter {
 public:
  ShardWriter(const SourceSet& sources, const ConvertPlan& plan, const ConvertOptions& options,
              fs::path directory)
      : sources_(sources),
        plan_(plan),
        format_(find_format(options.format)),
        vlen_(options.hdf5_vlen),
        directory_(std::move(directory)),
        reader_(sources),
        transform_(options) {}

  WrittenShard write(const PlannedShard& planned, internal::TaskContext& context) {
    const fs::path path = planned.url == "." ? directory_ : directory_ / planned.url;
    WrittenShard written;
    written.entry.url = planned.url;
    std::vector<SampleSum> sums;
    sums.reserve(planned.samples);
    const auto writer = format_.create(path, {plan_.fields, planned.samples, vlen_});
    for (std::uint64_t i = 0; i < planned.samples; ++i) {
      const std::uint64_t bytes = copy_sample(planned, i, *writer, written, sums);
      context.advance(1, bytes);
    }
    writer->close();
    const fs::path file = format_.data_file(path);
    if (!file.empty()) {
      written.entry.filesize = written.bytes = fs::file_size(file);
      written.entry.xxh3 = hash_file(file.string()).hex();
    }
    save_sums(planned, sums);
    return written;
  }

 private:
  struct SampleSum {
    std::string key;  // only where readers sort by it
    std::uint64_t value;
  };

  // Returns the payload bytes that were read.
  std::uint64_t copy_sample(const PlannedShard& planned, std::uint64_t i, Writer& writer,
                            WrittenShard& written, std::vector<SampleSum>& sums) {
    const std::uint64_t position = planned.first + i;
    if (i + kLookAhead < planned.samples) reader_.will_need(plan_.order(position + kLookAhead));
    const std::uint64_t n = plan_.order(position);
    SampleView source;
    reader_.read(n, source);
    const SampleView sample = transform_.apply(source, sources_.shard_path(n));
    const Digest digest = hasher_.hash(sample);
    writer.write(sample);
    written.digest += digest;
    ++written.entry.samples;
    for (const FieldView& field : sample.fields) written.bytes += field.bytes.size();
    // Folders are read in the order of their keys, whatever the order of writing was.
    sums.push_back({planned.url == "." ? std::string(sample.key) : std::string(), digest.low});
    std::uint64_t bytes = 0;
    for (const FieldView& field : source.fields) bytes += field.bytes.size();
    return bytes;
  }

  void save_sums(const PlannedShard& planned, std::vector<SampleSum>& sums) const {
    std::stable_sort(sums.begin(), sums.end(),
                     [](const SampleSum& a, const SampleSum& b) { return a.key < b.key; });
    std::vector<std::uint64_t> values;
    values.reserve(sums.size());
    for (const SampleSum& sum : sums) values.push_back(sum.value);
    internal::save_sums(internal::sum_path(directory_, planned.url), values);
  }

  const SourceSet& sources_;
  const ConvertPlan& plan_;
  const Format& format_;
  bool vlen_;
  fs::path directory_;
  internal::SourceReader reader_;
  internal::Transform transform_;
  SampleHasher hasher_;
};

[[noreturn]] void wrong_option(std::string option, std::string cause, std::string remedy) {
  throw Error(ErrorCode::kInvalidArgument, std::move(option), {}, std::move(cause),
              std::move(remedy));
}

void check_options(const ConvertOptions& options) {
  try {
    find_format(options.format);
  } catch (const Error& error) {
    wrong_option("--to", error.info().cause, error.info().remedy);
  }
  if (options.hdf5_vlen && options.format != "hdf5") {
    wrong_option("--hdf5-layout", "is for --to hdf5 alone", "leave it out");
  }
  if (options.shard_bytes == 0) wrong_option("--shard-size", "is 0", "give a size such as 1G");
  if (options.name.empty() || options.name.front() == '.' ||
      options.name.find_first_of(std::string_view("/\0{}*?[]", 8)) != std::string::npos) {
    wrong_option("--name", "\"" + escape(options.name) + "\" cannot begin the names of shards",
                 "use letters, digits, '-' and '_'");
  }
  const bool raw = options.image_output == ImageOutput::kRaw;
  if (raw && !options.image_size) {
    wrong_option("--image-format", "raw needs the size of the arrays", "add --image-size WxH");
  }
  if (!raw && options.image_size) {
    wrong_option("--image-size", "images are stored as they are unless they are decoded",
                 "add --image-format raw");
  }
  if (raw && (options.image_size->width == 0 || options.image_size->height == 0 ||
              options.image_size->width > 16384 || options.image_size->height > 16384)) {
    wrong_option("--image-size", "sides must lie between 1 and 16384", "for example 224x224");
  }
}

// The dataset's shards as one argument: the first and the last number in braces.
std::string shard_pattern(const ConvertOptions& options, const std::vector<PlannedShard>& shards) {
  if (shards.front().url == ".") return options.destination.string();
  if (shards.size() == 1) return (options.destination / shards.front().url).string();
  char range[48];
  std::snprintf(range, sizeof range, "-{%06d..%06zu}", 0, shards.size() - 1);
  const std::string suffix(find_format(options.format).suffix());
  return (options.destination / (options.name + range + suffix)).string();
}

std::map<std::string, std::string> library_versions(const Format& format) {
  const std::string library = format.library();  // "hdf5 1.10.8"
  const std::size_t space = library.find(' ');
  if (library.empty()) return {};
  return {{library.substr(0, space), space == std::string::npos ? "" : library.substr(space + 1)}};
}

std::vector<std::string> names_of(const ConvertPlan& plan) {
  std::vector<std::string> names = {kManifestName};
  for (const PlannedShard& shard : plan.shards) {
    names.push_back(shard.url);
    names.push_back(internal::sum_path({}, shard.url).string());
  }
  return names;
}

// Writes all shards, then the manifest.
void write_all(const SourceSet& sources, const ConvertPlan& plan, const ConvertOptions& options,
               internal::Destination& destination, const Observer& observer,
               ConvertReport& report) {
  const Format& format = find_format(options.format);
  destination.create(names_of(plan));
  const internal::PoolOptions pool{plan.shards.size(), options.jobs, "writing", plan.order.size(),
                                   plan.source_bytes};
  const auto results = internal::run_tasks(
      pool,
      [&]() -> internal::Task {
        const auto writer =
            std::make_shared<ShardWriter>(sources, plan, options, destination.path());
        return [&plan, writer](std::size_t task, internal::TaskContext& context) {
          return writer->write(plan.shards[task], context).pack();
        };
      },
      observer);
  Manifest manifest{options.format,           {}, plan.fields, sources.classes(), plan.sample_order,
                    library_versions(format), {}};
  Digest digest;
  for (const std::string& packed : results) {
    const WrittenShard shard = WrittenShard::unpack(packed);
    manifest.shards.push_back(shard.entry);
    digest += shard.digest;
    report.bytes += shard.bytes;
  }
  report.samples = manifest.samples();
  if (report.samples != plan.order.size()) {
    throw Error(ErrorCode::kInternal, options.destination.string(), {},
                "wrote " + std::to_string(report.samples) + " samples, but read " +
                    std::to_string(plan.order.size()));
  }
  manifest.content_digest = report.content_digest = digest.hex();
  save_manifest(destination.path() / kManifestName, manifest);
  destination.keep();
}

}  // namespace

ConvertReport convert(const ConvertOptions& given, const Observer& observer) {
  const auto begin = std::chrono::steady_clock::now();
  ConvertOptions options = given;
  ConvertReport report;
  Observer inner = observer;
  inner.warning = [&](const std::string& text) {
    report.warnings.push_back(text);
    if (observer.warning) observer.warning(text);
  };
  check_options(options);
  if (options.shuffle && find_format(options.format).suffix().empty()) {
    inner.warning("folders are read in the order of their names: --shuffle does nothing here");
    options.shuffle.reset();
  }
  if (std::any_of(options.sources.begin(), options.sources.end(), is_stream)) {
    // Before anything is unpacked: whether there is a place to write.
    internal::Destination(options.destination, options.force, SourceSet());
  }
  const internal::Spool spool(options.sources, options.destination, inner);
  const SourceSet sources(options.sources);
  internal::Destination destination(options.destination, options.force, sources);
  for (const Dataset& dataset : sources.datasets()) {
    for (const std::string& warning : dataset.info().warnings) inner.warning(warning);
  }
  const ConvertPlan plan = make_plan(sources, options, inner);
  report.samples = plan.order.size();
  report.shards = plan.shards.size();
  report.source_bytes = plan.source_bytes;
  report.shard_pattern = shard_pattern(options, plan.shards);
  if (!options.dry_run) {
    write_all(sources, plan, options, destination, inner, report);
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace shardmill
