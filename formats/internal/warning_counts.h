// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill::internal {

/// Counts what a scan leaves out or finds odd, by kind, and keeps the first name of each, so
/// that a million of them still make one warning.
class WarningCounts {
 public:
  /// Counts one more of `kind`, which must be a plural ("hidden files left out").
  void note(std::string_view kind, std::string_view name);
  /// Returns one sentence per kind, in the order in which they were first seen.
  std::vector<std::string> lines() const;

 private:
  struct Entry {
    std::string kind;
    std::string first;
    std::uint64_t count = 0;
  };
  std::vector<Entry> entries_;
};

}  // namespace shardmill::internal
