// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/convert.h>
#include <shardmill/formats/sample.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace shardmill::internal {

/// Gives samples the field names and class numbers that were asked for: `--rename`, `--fields`,
/// `--classes`. One thread; reuses its buffers.
class Shape {
 public:
  /// `numbers`: the new number of each class of the source; empty: unchanged.
  Shape(const ConvertOptions& options, std::vector<std::int64_t> numbers);

  /// True if apply() changes nothing.
  bool identity() const noexcept { return identity_; }
  /// Replaces the fields of `sample`; valid until the next call, as long as the old one is.
  void apply(SampleView& sample, const std::string& path);

 private:
  std::string_view name_of(std::string_view field) const noexcept;
  bool wanted(std::string_view field) const noexcept;
  void set_class(FieldView& field, const SampleView& sample, const std::string& path);

  const ConvertOptions& options_;
  std::vector<std::int64_t> numbers_;
  bool identity_;
  std::vector<FieldView> fields_;
  std::string class_text_;
};

}  // namespace shardmill::internal
