// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/internal/warning_counts.h"

namespace shardmill::folder {

/// One file as a field of a sample; `name` is the file's name in its directory.
struct GroupFile {
  std::string field;
  std::string_view name;
};

/// The files of one directory that make one sample, sorted by field.
struct Group {
  std::string key;  ///< Without the directory.
  std::vector<GroupFile> files;
  bool has_image = false;
};

/// What grouping the files of one directory needs to know.
struct GroupInput {
  const std::string& root;                ///< For messages.
  const std::string& directory;           ///< "" or ending in '/'.
  const std::vector<std::string>& files;  ///< Sorted; outlives the groups.
};

/// Groups files called KEY.FIELD: the key ends at the first dot. Files without one are counted
/// and left out.
std::vector<Group> group_members(const GroupInput& input, internal::WarningCounts& counts);

/// Groups raw files by the rules of docs/formats/folder.md. Throws kInvalidArgument naming both
/// files if two are the same field of one sample.
std::vector<Group> group_raw(const GroupInput& input, internal::WarningCounts& counts);

}  // namespace shardmill::folder
