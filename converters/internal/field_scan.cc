// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/field_scan.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <charconv>

namespace shardmill::internal {

namespace {

constexpr std::size_t kMaxClasses = 100'000;  // more different values are no classes

// True for exactly the texts that an int64 prints as.
bool is_shortest_decimal(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::to_string(value) == text;
}

// Returns the type of a field's array, if its bytes are an array and nothing would be lost by
// storing it as numbers.
std::optional<ArrayType> array_type(const FieldView& field) {
  if (field.array != nullptr) return *field.array;
  if (!is_npy_field(field.name)) return std::nullopt;
  try {
    const NpyView npy = parse_npy(field.bytes, {}, {});
    const bool trailing =
        npy.data.data() + npy.data.size() != field.bytes.data() + field.bytes.size();
    if (!npy.canonical() || trailing) return std::nullopt;
    return npy.type;
  } catch (const Error&) {
    return std::nullopt;  // kept as bytes, as the content digest does
  }
}

}  // namespace

bool is_npy_field(std::string_view field) noexcept {
  return field == "npy" || field.ends_with(".npy");
}

std::uint64_t FieldScan::add(const SampleView& sample) {
  const std::uint64_t before = bytes_;
  if (samples_ == 0) first_key_ = sample.key;
  for (const FieldView& field : sample.fields) add_field(sample, field);
  if (sample.fields.size() != seen_.size()) note_missing(sample);
  ++samples_;
  return bytes_ - before;
}

void FieldScan::add_field(const SampleView& sample, const FieldView& field) {
  auto at = seen_.find(field.name);
  if (at == seen_.end()) {
    at = seen_.emplace(std::string(field.name), Seen{}).first;
    at->second.summary.name = field.name;
    at->second.summary.bytes_min = field.bytes.size();
    at->second.class_numbers = field.name == "cls" && field.array == nullptr;
    at->second.first_key = sample.key;
    at->second.lacked = samples_ > 0;
    if (samples_ > 0) at->second.lacked_by = first_key_;
  }
  Seen& seen = at->second;
  FieldSummary& summary = seen.summary;
  const std::uint64_t size = field.bytes.size();
  summary.bytes_min = std::min(summary.bytes_min, size);
  summary.bytes_max = std::max(summary.bytes_max, size);
  summary.bytes += size;
  bytes_ += size;
  if (size == 0 && empty_payloads_++ == 0) first_empty_ = sample_place(sample.key, field.name);
  if (seen.class_numbers) seen.class_numbers = is_shortest_decimal(as_text(field.bytes));
  if (seen.arrays) {
    const std::optional<ArrayType> type = array_type(field);
    if (summary.samples == 0) summary.array = type;
    seen.arrays = type.has_value() && summary.array == type;
  }
  ++summary.samples;
  if (field.name == "cls") add_class(as_text(field.bytes));
}

void FieldScan::note_missing(const SampleView& sample) {
  for (auto& [name, seen] : seen_) {
    if (seen.lacked || sample.find(name) != nullptr) continue;
    seen.lacked = true;
    seen.lacked_by = sample.key;
  }
}

std::vector<std::string> FieldScan::lint() const {
  std::vector<std::string> lines;
  std::size_t dotted = 0;
  const Seen* first_dotted = nullptr;
  for (const auto& [name, seen] : seen_) {
    const std::uint64_t count = seen.summary.samples;
    if (count == samples_) continue;
    if (name.find('.') != std::string::npos && 2 * count <= samples_) {
      if (dotted++ == 0) first_dotted = &seen;
      continue;
    }
    lines.push_back("field \"" + escape(name) + "\" is missing in " +
                    std::to_string(samples_ - count) + " of " + std::to_string(samples_) +
                    " samples, the first: " + sample_place(seen.lacked_by));
  }
  if (dotted > 0) {
    lines.push_back(std::to_string(dotted) + " field names with dots that few samples have (\"" +
                    escape(first_dotted->summary.name) + "\" of " +
                    sample_place(first_dotted->first_key) +
                    "): a key ends at the first dot of a file's name, so a dot in a name makes "
                    "another field; rename such files");
  }
  return lines;
}

void FieldScan::add_class(std::string_view value) {
  if (with_class_++ > 0 && value != last_class_) ++class_changes_;
  last_class_ = value;
  const auto at = class_counts_.find(value);
  if (at != class_counts_.end()) {
    ++at->second;
  } else if (class_counts_.size() <= kMaxClasses) {
    class_counts_.emplace(std::string(value), 1);
  }
}

std::vector<FieldSummary> FieldScan::fields() const {
  std::vector<FieldSummary> fields;
  for (const auto& [name, seen] : seen_) {
    FieldSummary& summary = fields.emplace_back(seen.summary);
    if (seen.class_numbers) summary.kind = FieldKind::kClass;
    if (seen.arrays) summary.kind = FieldKind::kArray;
    if (summary.kind != FieldKind::kArray) summary.array.reset();
    summary.optional = summary.samples < samples_;
  }
  return fields;
}

bool FieldScan::class_sorted() const noexcept {
  if (class_counts_.size() < 2 || class_counts_.size() > kMaxClasses) return false;
  // Two neighbours of a random order differ with probability 1 - sum of p(class)^2.
  const auto total = static_cast<double>(with_class_);
  double same = 0;
  for (const auto& [value, count] : class_counts_) {
    const double share = static_cast<double>(count) / total;
    same += share * share;
  }
  const double expected = (total - 1) * (1 - same);
  const bool runs = class_changes_ + 1 == class_counts_.size();  // each class in one piece
  if (runs && with_class_ >= 2 * class_counts_.size()) return true;
  return static_cast<double>(class_changes_) < expected / 2;
}

}  // namespace shardmill::internal
