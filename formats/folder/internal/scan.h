// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "formats/internal/descriptor.h"
#include "formats/internal/warning_counts.h"

namespace shardmill::folder {

/// What one directory holds, names sorted by bytes.
struct Listing {
  std::vector<std::string> files;        ///< Regular files, also through links.
  std::vector<std::string> directories;  ///< Also through links, unless they lead to an ancestor.
};

/// Walks directories below a root without following link loops. Each is read once, by one open
/// descriptor at a time, so neither depth nor number is limited by descriptors.
class DirectoryScan {
 public:
  /// Throws kNotFound, or kInvalidArgument if `root` is not a directory.
  DirectoryScan(const std::filesystem::path& root, internal::WarningCounts& counts);

  /// A directory that has been found: `path` relative to the root, "" or ending in '/'.
  struct Directory {
    std::string path;
    std::size_t parent;
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
  };

  /// Reads directory number `n` (0 is the root). Junk, and what is neither file nor directory, is
  /// counted and left out. Throws kIo naming a directory that cannot be read.
  Listing list(std::size_t n);
  /// Adds `name`, one of the directories of `parent`'s listing; returns its number.
  std::size_t add(std::size_t parent, std::string_view name);
  const std::string& path(std::size_t n) const noexcept { return directories_[n].path; }

 private:
  enum class Kind : std::uint8_t { kFile, kDirectory, kLoop, kBrokenLink, kOther };
  Kind kind_of(int fd, const char* name, unsigned char type, std::size_t parent) const;
  bool is_ancestor(std::size_t n, std::uint64_t device, std::uint64_t inode) const noexcept;

  std::string root_;
  internal::WarningCounts& counts_;
  internal::Descriptor root_fd_;
  std::vector<Directory> directories_;
};

}  // namespace shardmill::folder
