// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/convert.h>
#include <shardmill/converters/inspect.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace shardmill::internal {

/// Turns a sample as it is read into the sample as it is written: images in another size, format,
/// or as arrays.
class Transform {
 public:
  /// `raw`: type of the arrays that raw images become, if it is known yet.
  explicit Transform(const ConvertOptions& options, std::optional<ArrayType> raw = std::nullopt);
  ~Transform();
  Transform(Transform&&) noexcept;
  Transform& operator=(Transform&&) noexcept;

  /// True if apply() makes something else of images.
  bool changes() const noexcept;

  /// Learns from the first image which type the arrays have, where no exact size was given.
  void learn(const SampleView& sample, const std::string& path);
  const std::optional<ArrayType>& raw() const noexcept;

  /// Returns the fields that apply() makes of samples with these fields. Throws kUnsupported if
  /// a field would collide with a new one; `path` names the source.
  std::vector<FieldSpec> fields(const std::vector<FieldSummary>& source,
                                const std::string& path) const;

  /// Returns the sample to write; valid until the next call, and as long as `sample` is. `path`
  /// names the source shard in messages.
  SampleView apply(const SampleView& sample, const std::string& path);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns the type of the arrays that raw images become by a plan's fields; nothing if there are
/// none.
std::optional<ArrayType> raw_type(const std::vector<FieldSpec>& fields);

}  // namespace shardmill::internal
