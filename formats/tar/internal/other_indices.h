// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace shardmill::tar {

/// What an index that another program made of an archive says.
struct OtherIndex {
  struct Member {
    std::uint64_t data_offset = 0;
    std::uint64_t size = 0;
    std::string extension;
    std::string name;  ///< Empty in versions that do not hold it.
  };
  std::filesystem::path file;
  std::string kind;  ///< "DALI v1.2", "Energon".
  bool has_names = false;
  /// Of DALI: the members of each sample.
  std::vector<std::vector<Member>> samples;
  /// Of Energon: the offset of each sample's first header, and of the end behind the last.
  std::vector<std::uint64_t> headers;

  std::uint64_t size() const noexcept {
    return headers.empty() ? samples.size() : headers.size() - 1;
  }
};

/// Parses DALI's index (wds2idx, v1.0 to v1.2; `kind` is set) or Energon's `.tar.idx`. Throws
/// kDataLoss naming the line or offset that is malformed, kUnsupported for another version.
OtherIndex read_dali_index(const std::filesystem::path& file);
OtherIndex read_energon_index(const std::filesystem::path& file);

/// Returns the indices beside the archive (`NAME.idx`, `NAME.tar.idx`) that are not older than it.
/// What is malformed is said in `warnings` and left out.
std::vector<OtherIndex> neighbour_indices(const std::filesystem::path& archive,
                                          std::vector<std::string>& warnings);

/// Returns the text of DALI's index v1.2 for the archive `path`: a line per sample with extension,
/// offset, size and name of each of its members. Throws kUnsupported for a name with white space,
/// which such an index cannot hold.
std::string dali_index(const std::filesystem::path& path);

}  // namespace shardmill::tar
