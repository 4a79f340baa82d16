// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/inspect.h>
#include <shardmill/formats/sample.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill::internal {

/// Learns from all samples of a set which fields it has, of which kind, and how it is ordered.
class FieldScan {
 public:
  /// Adds the next sample, in the order in which the set has them. Reads payloads only of `cls`
  /// and the headers of arrays. Returns the bytes of its payloads.
  std::uint64_t add(const SampleView& sample);

  /// Returns what was learned, sorted by name.
  std::vector<FieldSummary> fields() const;
  std::uint64_t samples() const noexcept { return samples_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

  /// True if equal classes stand together: each class (of two samples or more on average) is in
  /// one piece, or there are fewer than half as many changes of `cls` from one sample to the next
  /// as a random order would have.
  bool class_sorted() const noexcept;

  /// Says what people get wrong in names and fields: fields that some samples lack, and dots in
  /// file names, which end a key too early.
  std::vector<std::string> lint() const;

  std::uint64_t empty_payloads() const noexcept { return empty_payloads_; }
  /// The first of them, as an error's place.
  const std::string& first_empty() const noexcept { return first_empty_; }

 private:
  struct Seen {
    FieldSummary summary;
    bool class_numbers = true;  // so far every payload is a shortest decimal
    bool arrays = true;         // so far every payload is an array of one type
    std::string first_key;      // of the first sample that has it
    std::string lacked_by;      // key of the first sample that lacks it, once one was seen
    bool lacked = false;
  };
  void add_field(const SampleView& sample, const FieldView& field);
  void add_class(std::string_view value);

  std::map<std::string, Seen, std::less<>> seen_;
  void note_missing(const SampleView& sample);

  std::string first_key_;  // of all samples
  std::uint64_t samples_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t empty_payloads_ = 0;
  std::string first_empty_;
  std::map<std::string, std::uint64_t, std::less<>> class_counts_;
  std::string last_class_;
  std::uint64_t class_changes_ = 0;
  std::uint64_t with_class_ = 0;
};

/// True if `field` names npy bytes: `npy`, or ending in `.npy`.
bool is_npy_field(std::string_view field) noexcept;

}  // namespace shardmill::internal
