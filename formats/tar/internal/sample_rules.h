// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "formats/internal/warning_counts.h"
#include "formats/tar/internal/walk.h"

namespace shardmill::tar {

/// What streams say of keys that they meet again, and the reader by number, which can tell more.
inline constexpr std::string_view kRepeatedKeys =
    "keys occur again in another place and are separate samples";
inline constexpr std::string_view kScatteredKeys =
    "keys occur again in another place with other fields: the members of a sample must stand "
    "together, these are separate samples; pack with tar --sort=name";

/// Decides which members of an archive are fields of samples, by WebDataset's rules; counts what
/// is left out.
class SampleRules {
 public:
  /// `path` names the archive in messages.
  explicit SampleRules(std::string path) : path_(std::move(path)) {}

  /// Splits the name of a member that is a field into key and field (as it is written, in any
  /// case). Returns false for members that are none. Throws kUnsupported for a sparse member,
  /// naming it.
  bool take(const Member& member, std::string_view& key, std::string_view& field);

  internal::WarningCounts& counts() noexcept { return counts_; }

 private:
  std::string path_;
  internal::WarningCounts counts_;
};

}  // namespace shardmill::tar
