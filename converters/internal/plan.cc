// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/plan.h"

#include <shardmill/formats/error.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "converters/internal/field_scan.h"
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

// Reads the chosen samples in the sources' order, telling the observer how far it is.
template <class Visit>
void visit_samples(const SourceSet& sources, const SampleOrder& order, const Observer& observer,
                   Visit visit) {
  SourceReader reader(sources);
  SampleView sample;
  Progress progress{"scanning", 0, order.size(), 0, 0};
  for (std::uint64_t rank = 0; rank < order.size(); ++rank) {
    if (rank % kProgressEvery == 0) {
      if (observer.progress) observer.progress(progress);
      if (observer.stop.stop_requested()) throw Interrupted();
    }
    const std::uint64_t n = order.in_source_order(rank);
    reader.peek(n, sample);
    progress.bytes += visit(n, sample);
    ++progress.samples;
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
void check_unique(const SourceSet& sources, const SampleOrder& order, std::vector<KeyHash> hashes,
                  const Observer& observer) {
  std::sort(hashes.begin(), hashes.end());
  std::map<KeyHash, std::optional<std::uint64_t>> repeated;  // and where it came first
  for (std::size_t i = 1; i < hashes.size(); ++i) {
    if (hashes[i] == hashes[i - 1]) repeated.emplace(hashes[i], std::nullopt);
  }
  if (repeated.empty()) return;
  visit_samples(sources, order, observer, [&](std::uint64_t n, const SampleView& sample) {
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
  });
}

std::string shard_url(const ConvertOptions& options, const Format& format, std::size_t number) {
  if (format.suffix().empty()) return ".";
  char digits[24];
  std::snprintf(digits, sizeof digits, "-%06zu", number);
  return options.name + digits + std::string(format.suffix());
}

// Cuts the order into shards where the next sample would make one larger than asked for. `sizes`
// are the samples' bytes in source order.
std::vector<PlannedShard> cut_shards(const SampleOrder& order,
                                     const std::vector<std::uint64_t>& sizes,
                                     const ConvertOptions& options) {
  const Format& format = find_format(options.format);
  const bool one_shard = format.suffix().empty();
  std::vector<PlannedShard> shards;
  std::uint64_t room = 0;  // source bytes that the last shard still takes
  for (std::uint64_t position = 0; position < order.size(); ++position) {
    const std::uint64_t size = sizes[order.rank(position)];
    const bool full =
        !shards.empty() && !one_shard &&
        (options.shard_samples > 0 ? shards.back().samples >= options.shard_samples : size > room);
    if (shards.empty() || full) {
      shards.push_back({shard_url(options, format, shards.size()), position, 0});
      room = options.shard_bytes;
    }
    ++shards.back().samples;
    room -= std::min(room, size);
  }
  return shards;
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

SampleOrder::SampleOrder(std::uint64_t source_size, const ConvertOptions& options)
    : size_(source_size) {
  if (options.limit > 0 && options.limit < source_size) {
    size_ = options.limit;
    const Permutation choice(source_size, options.shuffle.value_or(0));
    for (std::uint64_t i = 0; i < size_; ++i) chosen_.push_back(choice(i));
    std::sort(chosen_.begin(), chosen_.end());
  }
  if (options.shuffle) shuffle_.emplace(size_, *options.shuffle);
}

ConvertPlan make_plan(const SourceSet& sources, const ConvertOptions& options,
                      const Observer& observer) {
  ConvertPlan plan{SampleOrder(sources.size(), options), {}, {}, "mixed", 0};
  FieldScan scan;
  std::vector<KeyHash> hashes;
  std::vector<std::uint64_t> sizes;
  hashes.reserve(plan.order.size());
  sizes.reserve(plan.order.size());
  visit_samples(sources, plan.order, observer, [&](std::uint64_t n, const SampleView& sample) {
    check_source_key(sample.key, sources, n);
    hashes.push_back(hash_key(sample.key));
    sizes.push_back(scan.add(sample));
    return sizes.back();
  });
  check_unique(sources, plan.order, std::move(hashes), observer);
  const bool class_sorted = !options.shuffle && scan.class_sorted();
  warn_about(scan, class_sorted, observer);
  plan.shards = cut_shards(plan.order, sizes, options);
  plan.fields = Transform(options).fields(scan.fields(), sources.name());
  if (class_sorted) plan.sample_order = "class-sorted";
  plan.source_bytes = scan.bytes();
  return plan;
}

}  // namespace shardmill::internal
