// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/reader.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/folder/internal/layout.h"
#include "formats/internal/flat_index.h"

namespace shardmill::folder {

/// The index of a folder: samples sorted by key, and of each its files sorted by field. No file
/// is opened for it. See docs/formats/folder.md.
struct IndexHead {
  Layout layout = Layout::kFlat;
  std::uint32_t reserved = 0;
};
inline constexpr std::uint32_t kNoClass = 0xFFFFFFFF;
struct IndexSample {
  std::uint64_t key = 0;  ///< Offset in the text; mostly the beginning of a file's path.
  std::uint64_t first_file = 0;
  std::uint32_t key_length = 0;
  std::uint32_t files = 0;
  std::uint32_t class_number = kNoClass;  ///< For a derived field `cls`.
  std::uint32_t has_image = 0;
};
struct IndexFile {
  std::uint64_t path = 0;  ///< Offset in the text, relative to the root.
  std::uint32_t path_length = 0;
  std::uint32_t field = 0;
};

/// Scans the folder `root` and returns its index. Throws kNotFound, kIo naming a directory that
/// cannot be read, kInvalidArgument naming two files with one key, kDataLoss for a folder whose
/// writer did not finish. `layout` is taken instead of the one that the folder suggests.
std::vector<std::byte> build_index(const std::filesystem::path& root,
                                   std::optional<Layout> layout = std::nullopt);

/// A view of index bytes. Checked as a whole when made, and entry by entry when used.
class Index {
 public:
  Index(Bytes bytes, const std::string& root);

  std::uint64_t size() const noexcept { return samples_.size(); }
  Layout layout() const noexcept { return layout_; }
  /// REQUIRES: n < size().
  const IndexSample& sample(std::uint64_t n) const noexcept { return samples_[n]; }
  std::string_view key(const IndexSample& sample) const;
  std::span<const IndexFile> files(const IndexSample& sample) const;
  std::string_view path(const IndexFile& file) const;
  std::string_view field(const IndexFile& file) const;
  std::vector<std::string> classes() const;
  std::vector<std::string> warnings() const;

 private:
  std::string_view text(std::uint64_t offset, std::uint64_t length) const;

  internal::FlatIndexReader flat_;
  Layout layout_ = Layout::kFlat;
  std::span<const IndexSample> samples_;
  std::span<const IndexFile> files_;
  std::string_view text_;
  std::vector<std::string> fields_;
};

}  // namespace shardmill::folder
