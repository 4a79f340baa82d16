// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/plan.h"

#include <shardmill/formats/error.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include "converters/internal/field_scan.h"
#include "converters/internal/forecast.h"
#include "converters/internal/transform.h"

namespace shardmill::internal {

namespace {

constexpr std::uint64_t kProgressEvery = 256;  // samples

struct KeyHash {
  std::uint64_t high;
  std::uint64_t low;
  auto operator<=>(const KeyHash&) const = default;
};

KeyHash hash_key(std::string_view key) {
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  return {hash.high64, hash.low64};
}

// What the first pass over the sources learns.
struct Scan {
  std::vector<std::uint64_t> numbers;  // of the samples, ascending
  std::vector<KeyHash> hashes;
  std::vector<std::uint64_t> sizes;
  FieldScan fields;
  std::uint64_t forecast = 0;
};

// Reads the candidates in the sources' order, telling the observer how far it is. `visit` throws
// what is wrong with a sample; `skip` decides about that.
template <class Visit, class Skip>
void visit_samples(const SourceSet& sources, const ConvertOptions& options,
                   const std::vector<std::uint64_t>& candidates, const Observer& observer,
                   Visit visit, Skip skip) {
  SourceReader reader(sources, options);
  SampleView sample;
  const std::uint64_t count = candidates.empty() ? sources.size() : candidates.size();
  Progress progress{"scanning", 0, count, 0, 0};
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i % kProgressEvery == 0) {
      if (observer.progress) observer.progress(progress);
      if (observer.stop.stop_requested()) throw Interrupted();
    }
    const std::uint64_t n = candidates.empty() ? i : candidates[i];
    try {
      reader.peek(n, sample);
      progress.bytes += visit(n, sample);
      ++progress.samples;
    } catch (const Error& error) {
      if (!skip(error)) throw;
      ++progress.errors;
    }
  }
  if (observer.progress) observer.progress(progress);
}

// The same fault as check_key() finds, but met in data, not in an argument.
void check_source_key(std::string_view key, const SourceSet& sources, std::uint64_t n) {
  try {
    check_key(key, {});
  } catch (const Error& error) {
    ErrorInfo info = error.info();
    info.code = ErrorCode::kDataLoss;
    info.path = sources.shard_path(n);
    throw Error(std::move(info));
  }
}

// Throws if a key comes twice, and says where. Needs 16 bytes a key: only after a finding are the
// sources read once more for the places.
void check_unique(const SourceSet& sources, const ConvertOptions& options,
                  const std::vector<std::uint64_t>& numbers, std::vector<KeyHash> hashes,
                  const Observer& observer) {
  std::sort(hashes.begin(), hashes.end());
  std::map<KeyHash, std::optional<std::uint64_t>> repeated;  // and where it came first
  for (std::size_t i = 1; i < hashes.size(); ++i) {
    if (hashes[i] == hashes[i - 1]) repeated.emplace(hashes[i], std::nullopt);
  }
  if (repeated.empty()) return;
  const auto look = [&](std::uint64_t n, const SampleView& sample) {
    const auto at = repeated.find(hash_key(sample.key));
    if (at == repeated.end()) return std::uint64_t{0};
    if (!at->second) {
      at->second = n;
      return std::uint64_t{0};
    }
    throw Error(
        ErrorCode::kDataLoss, sources.shard_path(*at->second), sample_place(sample.key),
        "this key comes twice: " + sources.place_of(*at->second) + ", and " + sources.place_of(n),
        "keys name samples: rename one, or leave one source out");
  };
  visit_samples(sources, options, numbers, observer, look, [](const Error&) { return false; });
}

std::string shard_url(const ConvertOptions& options, const Format& format, std::size_t number) {
  if (format.suffix().empty()) return ".";
  char digits[24];
  std::snprintf(digits, sizeof digits, "-%06zu", number);
  return options.name + digits + std::string(format.suffix());
}

// Cuts the last range of the order into shards where the next sample would make one larger than
// asked for. `sizes` are its samples' bytes in source order.
void cut_shards(ConvertPlan& plan, std::size_t part, const std::vector<std::uint64_t>& sizes,
                const ConvertOptions& options) {
  const Format& format = find_format(options.format);
  const bool one_shard = format.suffix().empty();
  const SampleOrder::Range& range = plan.order.ranges().back();
  std::vector<PlannedShard>& shards = plan.shards;
  const std::size_t first_shard = shards.size();
  std::uint64_t room = 0;  // source bytes that the last shard still takes
  for (std::uint64_t i = 0; i < range.size; ++i) {
    const std::uint64_t position = range.first + i;
    const std::uint64_t size = sizes[plan.order.rank(position) - range.first];
    const bool any = shards.size() > first_shard;
    const bool full =
        any && !one_shard &&
        (options.shard_samples > 0 ? shards.back().samples >= options.shard_samples : size > room);
    if (!any || full) {
      shards.push_back(
          {shard_url(options, format, shards.size() - first_shard), part, position, 0, 0});
      room = options.shard_bytes;
    }
    ++shards.back().samples;
    shards.back().source_bytes += size;
    room -= std::min(room, size);
  }
}

std::map<std::string, std::string> library_versions(const Format& format) {
  const std::string library = format.library();  // "hdf5 1.10.8"
  const std::size_t space = library.find(' ');
  if (library.empty()) return {};
  return {{library.substr(0, space), space == std::string::npos ? "" : library.substr(space + 1)}};
}

void warn_about(const FieldScan& scan, bool class_sorted, const Observer& observer) {
  if (!observer.warning) return;
  if (scan.empty_payloads() > 0) {
    observer.warning(std::to_string(scan.empty_payloads()) +
                     (scan.empty_payloads() == 1 ? " payload is" : " payloads are") +
                     " empty (0 bytes), the first: " + scan.first_empty());
  }
  if (class_sorted) {
    observer.warning(
        "class-sorted: shuffled readers will see few classes per batch; add --shuffle 1");
  }
}

}  // namespace

namespace {

// The samples that --limit takes, ascending; empty: all.
std::vector<std::uint64_t> choose(std::uint64_t size, const ConvertOptions& options) {
  std::vector<std::uint64_t> chosen;
  if (options.limit == 0 || options.limit >= size) return chosen;
  const Permutation choice(size, options.shuffle.value_or(0));
  for (std::uint64_t i = 0; i < options.limit; ++i) chosen.push_back(choice(i));
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

SkippedSample skipped_sample(const ErrorInfo& info) {
  const SamplePlace place = parse_sample_place(info.place);
  return {escape(info.path), escape(place.key), escape(place.field), escape(info.cause)};
}

void add_part(ConvertPlan& plan, std::string name, Scan& scan, const SourceSet& sources,
              const ConvertOptions& options, const Transform& transform, bool all) {
  const bool class_sorted = !options.shuffle && scan.fields.class_sorted();
  PlannedPart& part = plan.parts.emplace_back();
  part.name = std::move(name);
  part.samples = scan.sizes.size();
  part.manifest.format = options.format;
  part.manifest.classes = sources.classes();
  part.manifest.libraries = library_versions(find_format(options.format));
  part.manifest.fields = transform.fields(scan.fields.fields(), sources.name());
  if (class_sorted) part.manifest.order = "class-sorted";
  if (all) scan.numbers.clear();
  plan.order.add(scan.sizes.size(), std::move(scan.numbers), options.shuffle);
  cut_shards(plan, plan.parts.size() - 1, scan.sizes, options);
  plan.source_bytes += scan.fields.bytes();
  plan.forecast_bytes += scan.forecast;
}

}  // namespace

namespace {

// Which of the shares a key belongs to: its place on a circle that depends on it alone.
std::size_t part_of(const KeyHash& hash, const ConvertOptions& options) {
  if (options.split.size() < 2) return 0;
  constexpr std::uint64_t kSalt = 0x73706C6974;
  const std::uint64_t seed = options.shuffle.value_or(0);
  const std::array<std::uint64_t, 3> words = {hash.high, hash.low, seed ^ kSalt};
  const auto place = static_cast<double>(XXH3_64bits(words.data(), sizeof words) >> 11) * 0x1p-53;
  double all = 0;
  for (const auto& [name, share] : options.split) all += share;
  double end = 0;
  for (std::size_t part = 0; part + 1 < options.split.size(); ++part) {
    end += options.split[part].second / all;
    if (place < end) return part;
  }
  return options.split.size() - 1;
}

// Forecasts from some samples, evenly spread, what converted images take.
void measure(const SourceSet& sources, const ConvertOptions& options, Transform& transform,
             ConvertPlan& plan) {
  constexpr std::uint64_t kMost = 48;
  SourceReader reader(sources, options);
  const std::uint64_t size = plan.order.size();
  const std::uint64_t count = std::min(size, kMost);
  double sum = 0;
  double squares = 0;
  double measured = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t n = plan.order(i * size / count);
    try {
      SampleView sample;
      reader.read(n, sample);
      const auto bytes = static_cast<double>(
          forecast_sample(options.format, transform.apply(sample, sources.shard_path(n))));
      sum += bytes;
      squares += bytes * bytes;
      ++measured;
    } catch (const Error&) {
      // What is wrong with it is told when it is written.
    }
  }
  if (measured == 0) return;
  const double mean = sum / measured;
  const double variance = std::max(0.0, squares / measured - mean * mean);
  const auto all = static_cast<double>(size);
  plan.forecast_bytes = static_cast<std::uint64_t>(mean * all);
  for (const PlannedShard& shard : plan.shards) {
    const auto bytes = static_cast<std::uint64_t>(mean * static_cast<double>(shard.samples));
    plan.forecast_bytes += forecast_shard(options.format, bytes);
  }
  if (count < size) {
    plan.forecast_plus_minus = static_cast<std::uint64_t>(2 * std::sqrt(variance / measured) * all);
  }
}

void check_fields(const Scan& scan, const ConvertOptions& options) {
  const std::vector<FieldSummary> found = scan.fields.fields();
  for (const std::string& wanted : options.fields) {
    if (std::any_of(found.begin(), found.end(),
                    [&](const FieldSummary& field) { return field.name == wanted; })) {
      continue;
    }
    throw Error(ErrorCode::kInvalidArgument, "--fields", {},
                "no sample has a field \"" + escape(wanted) + "\"",
                "shardmill inspect SOURCE lists the fields");
  }
}

}  // namespace

ConvertPlan make_plan(const SourceSet& sources, const ConvertOptions& options,
                      const Observer& observer) {
  ConvertPlan plan;
  Transform transform(options);
  std::vector<Scan> scans(std::max<std::size_t>(1, options.split.size()));
  Scan all;  // of which only hashes, numbers and fields are used
  const std::vector<std::uint64_t> candidates = choose(sources.size(), options);
  const auto visit = [&](std::uint64_t n, const SampleView& sample) {
    check_source_key(sample.key, sources, n);
    const KeyHash hash = hash_key(sample.key);
    if (!transform.raw()) transform.learn(sample, sources.shard_path(n));
    Scan& scan = scans[part_of(hash, options)];
    const std::uint64_t size = scan.fields.add(sample);
    if (scans.size() > 1) all.fields.add(sample);
    all.numbers.push_back(n);
    all.hashes.push_back(hash);
    scan.numbers.push_back(n);
    scan.sizes.push_back(size);
    scan.forecast += forecast_sample(options.format, sample);
    return size;
  };
  const auto skip = [&](const Error& error) {
    if (options.on_error == OnError::kFail || error.code() == ErrorCode::kInvalidArgument) {
      return false;
    }
    plan.skipped.push_back(skipped_sample(error.info()));
    return true;
  };
  visit_samples(sources, options, candidates, observer, visit, skip);
  if (all.numbers.empty()) {
    const SkippedSample& first = plan.skipped.at(0);
    throw Error(ErrorCode::kDataLoss, first.path, sample_place(first.key, first.field),
                "no sample can be read, the first: " + first.cause);
  }
  check_unique(sources, options, all.numbers, std::move(all.hashes), observer);
  const bool whole = scans.size() == 1 && all.numbers.size() == sources.size();
  const FieldScan& fields = scans.size() > 1 ? all.fields : scans[0].fields;
  check_fields(scans.size() > 1 ? all : scans[0], options);
  warn_about(fields, !options.shuffle && fields.class_sorted(), observer);
  for (std::size_t part = 0; part < scans.size(); ++part) {
    if (scans[part].numbers.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "--split", {},
                  "no sample goes to " + options.split[part].first, "give it a larger share");
    }
    add_part(plan, options.split.empty() ? std::string() : options.split[part].first, scans[part],
             sources, options, transform, whole);
  }
  for (const PlannedShard& shard : plan.shards) {
    plan.forecast_bytes += forecast_shard(options.format, shard.source_bytes);
  }
  if (transform.changes()) measure(sources, options, transform, plan);
  return plan;
}

std::string shard_pattern(const ConvertPlan& plan, std::size_t part,
                          const ConvertOptions& options) {
  const std::filesystem::path directory = options.destination / plan.parts[part].name;
  std::vector<std::string> urls;
  for (const PlannedShard& shard : plan.shards) {
    if (shard.part == part) urls.push_back(shard.url);
  }
  const std::filesystem::path here =
      plan.parts[part].name.empty() ? options.destination : directory;
  if (urls.empty() || urls.front() == ".") return here.string();
  if (urls.size() == 1) return (here / urls.front()).string();
  char range[48];
  std::snprintf(range, sizeof range, "-{%06d..%06zu}", 0, urls.size() - 1);
  return (here / (options.name + range + std::string(find_format(options.format).suffix())))
      .string();
}

}  // namespace shardmill::internal
