// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/compare.h"

#include <shardmill/formats/dataset.h>
#include <xxhash.h>

#include <algorithm>

namespace shardmill::internal {

namespace {

constexpr std::size_t kMostDifferences = 100;
constexpr std::uint64_t kProgressEvery = 256;  // samples

struct Entry {
  std::uint64_t key_high;
  std::uint64_t key_low;
  Digest digest;
  std::uint64_t number;
  bool same_key(const Entry& other) const noexcept {
    return key_high == other.key_high && key_low == other.key_low;
  }
};

bool by_key(const Entry& a, const Entry& b) noexcept {
  return std::pair(a.key_high, a.key_low) < std::pair(b.key_high, b.key_low);
}

Entry make_entry(const SampleView& sample, std::uint64_t number, SampleHasher& hasher) {
  const XXH128_hash_t key = XXH3_128bits(sample.key.data(), sample.key.size());
  return {key.high64, key.low64, hasher.hash(sample), number};
}

// Visits all samples; `visit` returns false to end early.
template <class Visit>
void visit_samples(DatasetReader& reader, const Observer& observer, Visit visit) {
  Progress progress{"comparing", 0, reader.size(), 0, 0};
  SampleView sample;
  for (std::uint64_t n = 0; n < reader.size(); ++n) {
    if (n % kProgressEvery == 0) {
      if (observer.progress) observer.progress(progress);
      if (observer.stop.stop_requested()) throw Interrupted();
    }
    reader.read(n, sample);
    if (!visit(n, sample)) return;
    ++progress.samples;
    for (const FieldView& field : sample.fields) progress.bytes += field.bytes.size();
  }
}

// Finds the fields in which two samples of one key differ, by their canonical values.
void compare_fields(const SampleView& a, const SampleView& b, SampleHasher& hasher,
                    std::vector<Difference>& out) {
  const auto value = [&](const FieldView& field) {
    FieldView unnamed = field;
    return hasher.hash({a.key, std::span(&unnamed, 1)});
  };
  for (const FieldView& field : a.fields) {
    const FieldView* other = b.find(field.name);
    if (other == nullptr) {
      out.push_back({std::string(a.key), std::string(field.name), "only the first has it"});
    } else if (value(field) != value(*other)) {
      const std::string sizes = std::to_string(field.bytes.size()) + " and " +
                                std::to_string(other->bytes.size()) + " bytes";
      out.push_back({std::string(a.key), std::string(field.name), "values differ, " + sizes});
    }
  }
  for (const FieldView& field : b.fields) {
    if (a.find(field.name) == nullptr) {
      out.push_back({std::string(a.key), std::string(field.name), "only the second has it"});
    }
  }
}

}  // namespace

std::vector<Difference> first_differences(const std::string& first, const std::string& second,
                                          const Observer& observer) {
  DatasetReader a(Dataset::open(first));
  DatasetReader b(Dataset::open(second));
  SampleHasher hasher;
  std::vector<Entry> entries;
  entries.reserve(b.size());
  visit_samples(b, observer, [&](std::uint64_t n, const SampleView& sample) {
    entries.push_back(make_entry(sample, n, hasher));
    return true;
  });
  std::sort(entries.begin(), entries.end(), by_key);

  std::vector<Difference> out;
  std::vector<bool> found(entries.size(), false);
  visit_samples(a, observer, [&](std::uint64_t n, const SampleView& sample) {
    const Entry entry = make_entry(sample, n, hasher);
    const auto at = std::lower_bound(entries.begin(), entries.end(), entry, by_key);
    if (at == entries.end() || !at->same_key(entry)) {
      out.push_back({std::string(sample.key), {}, "only the first has this sample"});
    } else {
      found[static_cast<std::size_t>(at - entries.begin())] = true;
      if (at->digest != entry.digest) {
        SampleView other;
        b.read(at->number, other);
        compare_fields(sample, other, hasher, out);
      }
    }
    return out.size() < kMostDifferences;
  });
  for (std::size_t i = 0; i < entries.size() && out.size() < kMostDifferences; ++i) {
    if (found[i]) continue;
    SampleView other;
    b.read(entries[i].number, other);
    out.push_back({std::string(other.key), {}, "only the second has this sample"});
  }
  if (out.size() > kMostDifferences) out.resize(kMostDifferences);
  return out;
}

}  // namespace shardmill::internal
