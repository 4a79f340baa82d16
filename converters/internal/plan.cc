// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/plan.h"

#include <shardmill/formats/error.h>
#include <xxhash.h>

#include <algorithm>
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
void visit_samples(const SourceSet& sources, const std::vector<std::uint64_t>& candidates,
                   const Observer& observer, Visit visit, Skip skip) {
  SourceReader reader(sources);
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

std::string place_of(const SourceSet& sources, std::uint64_t n) {
  const auto [d, inside] = sources.locate(n);
  const Dataset& dataset = sources.datasets()[d];
  const DatasetShard& shard = dataset.shards()[dataset.shard_of(inside)];
  return "sample " + std::to_string(inside - shard.first) + " of " + escape(shard.path.string());
}

// Throws if a key comes twice, and says where. Needs 16 bytes a key: only after a finding are the
// sources read once more for the places.
void check_unique(const SourceSet& sources, const std::vector<std::uint64_t>& numbers,
                  std::vector<KeyHash> hashes, const Observer& observer) {
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
        "this key comes twice: " + place_of(sources, *at->second) + ", and " + place_of(sources, n),
        "keys name samples: rename one, or leave one source out");
  };
  visit_samples(sources, numbers, observer, look, [](const Error&) { return false; });
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
              const ConvertOptions& options, bool all) {
  const bool class_sorted = !options.shuffle && scan.fields.class_sorted();
  PlannedPart& part = plan.parts.emplace_back();
  part.name = std::move(name);
  part.samples = scan.sizes.size();
  part.manifest.format = options.format;
  part.manifest.classes = sources.classes();
  part.manifest.libraries = library_versions(find_format(options.format));
  part.manifest.fields = Transform(options).fields(scan.fields.fields(), sources.name());
  if (class_sorted) part.manifest.order = "class-sorted";
  if (all) scan.numbers.clear();
  plan.order.add(scan.sizes.size(), std::move(scan.numbers), options.shuffle);
  cut_shards(plan, plan.parts.size() - 1, scan.sizes, options);
  plan.source_bytes += scan.fields.bytes();
  plan.forecast_bytes += scan.forecast;
}

}  // namespace

ConvertPlan make_plan(const SourceSet& sources, const ConvertOptions& options,
                      const Observer& observer) {
  ConvertPlan plan;
  Scan scan;
  const std::vector<std::uint64_t> candidates = choose(sources.size(), options);
  const auto visit = [&](std::uint64_t n, const SampleView& sample) {
    check_source_key(sample.key, sources, n);
    const std::uint64_t size = scan.fields.add(sample);
    scan.numbers.push_back(n);
    scan.hashes.push_back(hash_key(sample.key));
    scan.sizes.push_back(size);
    scan.forecast += forecast_sample(options.format, sample);
    return size;
  };
  const auto skip = [&](const Error& error) {
    if (options.on_error == OnError::kFail) return false;
    plan.skipped.push_back(skipped_sample(error.info()));
    return true;
  };
  visit_samples(sources, candidates, observer, visit, skip);
  if (scan.numbers.empty()) {
    const SkippedSample& first = plan.skipped.at(0);
    throw Error(ErrorCode::kDataLoss, first.path, sample_place(first.key, first.field),
                "no sample can be read, the first: " + first.cause);
  }
  check_unique(sources, scan.numbers, scan.hashes, observer);
  warn_about(scan.fields, !options.shuffle && scan.fields.class_sorted(), observer);
  add_part(plan, {}, scan, sources, options, scan.numbers.size() == sources.size());
  plan.forecast_bytes += plan.shards.size() * forecast_shard(options.format);
  return plan;
}

}  // namespace shardmill::internal
