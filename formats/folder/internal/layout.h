// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace shardmill::folder {

/// How a folder is understood. Values are part of index files.
enum class Layout : std::uint32_t {
  kShardmill = 0,          ///< Written by shardmill: every file is KEY.FIELD.
  kClassPerDirectory = 1,  ///< Raw files, the first directory is the class.
  kFlat = 2,               ///< Raw files, no directories.
};

/// Returns "shardmill", "class-per-directory" or "flat".
constexpr std::string_view layout_name(Layout layout) noexcept {
  switch (layout) {
    case Layout::kClassPerDirectory:
      return "class-per-directory";
    case Layout::kFlat:
      return "flat";
    case Layout::kShardmill:
      break;
  }
  return "shardmill";
}

/// An empty file in the root by which a folder that FolderWriter completed is known.
inline constexpr std::string_view kMarkName = ".shardmill-folder";
/// What shardmill itself leaves in the directory begins so, and is no sample.
inline constexpr std::string_view kOwnPrefix = ".shardmill-";
/// The directory in the root in which FolderWriter collects samples until close().
inline constexpr std::string_view kStageName = ".shardmill-partial";

/// True for files in the root of a folder dataset that are about samples, not part of one:
/// manifest.json and the lists of hashes `NAME-000000.sum`.
bool is_dataset_file(std::string_view name) noexcept;

}  // namespace shardmill::folder
