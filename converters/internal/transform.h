// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/convert.h>
#include <shardmill/converters/inspect.h>

#include <memory>
#include <string>
#include <vector>

namespace shardmill::internal {

/// Turns a sample as it is read into the sample as it is written.
class Transform {
 public:
  explicit Transform(const ConvertOptions& options);
  ~Transform();
  Transform(Transform&&) noexcept;
  Transform& operator=(Transform&&) noexcept;

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

}  // namespace shardmill::internal
