// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/reader.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/internal/flat_index.h"

namespace shardmill::tar {

/// The index of an archive: samples in the order of the file, and of each its members sorted by
/// field. See docs/formats/tar.md.
struct IndexFile {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
};
struct IndexSample {
  std::uint64_t first_member = 0;  ///< The next entry's first_member ends the list.
  std::uint64_t key = 0;           ///< Offset in the key text; the next entry's ends it.
};
/// Instead of a header's hash: nobody has looked at it yet.
inline constexpr std::uint32_t kUnknownHeader = 0;
struct IndexMember {
  std::uint64_t data_offset = 0;
  std::uint64_t size = 0;
  std::uint32_t field = 0;
  std::uint32_t header_hash = 0;  ///< Of the block in front of the data.
};

/// Walks the archive `path` and returns its index. Throws kDataLoss for damage and for a sample
/// that has a field twice, kUnsupported for a sparse member, naming it.
std::vector<std::byte> build_index(const std::filesystem::path& path, Access access);

/// A view of index bytes. Checked as a whole when made, and entry by entry when used.
class Index {
 public:
  Index(Bytes bytes, const std::string& path);

  std::uint64_t size() const noexcept { return samples_.size() - 1; }
  const IndexFile& file() const noexcept { return *file_; }
  /// Entry `n` checked against the tables. REQUIRES: n < size().
  std::span<const IndexMember> members(std::uint64_t n) const;
  std::string_view key(std::uint64_t n) const;
  std::string_view field(const IndexMember& member) const;
  std::vector<std::string> warnings() const;

 private:
  internal::FlatIndexReader flat_;
  const IndexFile* file_;
  std::span<const IndexSample> samples_;  // one more than there are samples
  std::span<const IndexMember> members_;
  std::string_view keys_;
  std::vector<std::string> fields_;
};

}  // namespace shardmill::tar
