// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/manifest.h>
#include <shardmill/formats/sample.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace shardmill::internal {

/// Returns the integer that a class label stands for: a decimal text (blanks around it are
/// ignored), the bytes of an .npy file or an array with one element that is a whole number.
std::optional<std::int64_t> label_number(const FieldView& field);

/// Returns `text` without blanks and line ends around it.
std::string_view trimmed(std::string_view text) noexcept;

/// What stands at a JSON pointer: an integer, or else a text.
struct JsonLabel {
  std::optional<std::int64_t> number;
  std::string text;
};

/// Returns the number, text or truth value at `pointer` in the JSON text `bytes`; nothing if
/// there is none. Throws kDataLoss for malformed JSON (without path and place).
std::optional<JsonLabel> label_at(Bytes bytes, const std::string& pointer);

/// Makes samples by the rules of a manifest. One thread; reuses its buffers.
class View {
 public:
  /// `rules` and `classes` must outlive the view.
  View(const std::vector<FieldRule>& rules, const std::vector<std::string>& classes);

  /// Makes a sample of the same sample of all parts. Its key is that of part 0, `shard` the number
  /// of its shard there. The result is valid as long as `parts`, until the next call. Throws
  /// kDataLoss naming the field, without a path, for a label that is none of the classes.
  void apply(std::span<const SampleView> parts, std::size_t shard, SampleView& out);

 private:
  void add(const FieldRule& rule, std::size_t number, std::span<const SampleView> parts,
           std::size_t shard);
  std::int64_t class_number(const FieldRule& rule, const FieldView& field,
                            std::string_view key) const;
  const ArrayType* squeezed(std::size_t rule, const ArrayType* type);

  struct Squeezed {
    const ArrayType* from = nullptr;
    ArrayType type;
  };
  const std::vector<FieldRule>& rules_;
  std::unordered_map<std::string_view, std::int64_t> class_numbers_;
  std::vector<FieldView> fields_;
  std::vector<std::string> texts_;              // one a rule
  std::vector<std::deque<Squeezed>> squeezed_;  // one a rule: types met so far
};

}  // namespace shardmill::internal
