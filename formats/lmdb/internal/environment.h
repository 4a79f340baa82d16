// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/reader.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "formats/internal/input_file.h"

namespace shardmill::lmdb {

// Bits of a page's flags, of a leaf node's flags and of a tree's flags, as in the file.
inline constexpr std::uint16_t kBranchPage = 0x01;
inline constexpr std::uint16_t kLeafPage = 0x02;
inline constexpr std::uint16_t kOverflowPage = 0x04;
inline constexpr std::uint16_t kMetaPage = 0x08;
inline constexpr std::uint16_t kNodeOverflow = 0x01;
inline constexpr std::uint16_t kNodeTree = 0x02;
inline constexpr std::uint16_t kNodeDuplicates = 0x04;
inline constexpr std::uint16_t kTreeReverseKey = 0x02;
inline constexpr std::uint16_t kTreeDuplicates = 0x04;
inline constexpr std::uint16_t kTreeIntegerKey = 0x08;

inline constexpr std::size_t kPageHeader = 16;
inline constexpr std::size_t kNodeHeader = 8;

static_assert(std::endian::native == std::endian::little, "pages are read as they lie in the file");

/// Reads a number of the file.
template <typename T>
T load(const std::byte* bytes) noexcept {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

inline constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};
inline constexpr std::uint64_t kNoPage = ~std::uint64_t{0};

/// A B-tree (the main database or a named one) as its 48 bytes in the file describe it.
struct Tree {
  std::uint16_t flags = 0;
  std::uint16_t depth = 0;
  std::uint64_t entries = 0;
  std::uint64_t root = kNoPage;
};
inline constexpr std::size_t kTreeBytes = 48;

/// Parses the 48 bytes at `bytes`.
Tree parse_tree(const std::byte* bytes) noexcept;

/// What one meta page says.
struct Meta {
  std::uint32_t page_size = 0;
  std::uint64_t map_size = 0;
  std::uint64_t transaction = 0;
  Tree main;
};

/// A branch or leaf page whose header was checked. `bytes` is valid until release().
struct Page {
  std::uint64_t number = 0;
  Bytes bytes;
  std::uint32_t count = 0;  ///< Number of nodes.
};

/// One node of a leaf page. `key` lies inside the page; the value is found by value().
struct Node {
  std::string_view key;
  std::uint16_t flags = 0;
  std::uint32_t size = 0;    ///< Of the value.
  std::uint32_t offset = 0;  ///< Of the value, or of its first page's number, in the page.
};

/// A range of the file.
struct Extent {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

/// The file of an LMDB environment, read without liblmdb: no lock file, no transaction, nothing
/// that a fork could break. Everything is checked against the file's length when it is reached.
/// One thread.
class Environment {
 public:
  /// Opens the file and reads both meta pages; the newest counts. Throws kUnsupported for what
  /// is no LMDB file or not one of version 1, 64-bit and little-endian; kDataLoss for damage.
  Environment(const std::filesystem::path& file, Access access);

  const std::string& path() const noexcept { return file_.path(); }
  std::uint64_t file_size() const noexcept { return file_.size(); }
  bool mapped() const noexcept { return file_.mapped(); }
  const Meta& meta() const noexcept { return meta_; }

  /// Returns page `number`, which must be of the type `type` (kBranchPage or kLeafPage).
  Page page(std::uint64_t number, std::uint16_t type);
  /// Makes page() take the pages from number `first` on from `bytes`, which the caller read; until
  /// the next call. An empty window ends it.
  void set_window(std::uint64_t first, Bytes bytes) noexcept {
    window_first_ = first;
    window_ = bytes;
  }
  /// Returns node `i` of a leaf page. REQUIRES: i < page.count.
  Node node(const Page& page, std::uint32_t i) const {
    const std::byte* bytes = page.bytes.data();
    const std::size_t size = page.bytes.size();
    const std::size_t at = load<std::uint16_t>(bytes + kPageHeader + 2 * i);
    if (at < kPageHeader + 2 * page.count || at + kNodeHeader > size) node_outside(page);
    const std::size_t key_size = load<std::uint16_t>(bytes + at + 6);
    const std::size_t value_at = at + kNodeHeader + key_size;
    const auto value_size = load<std::uint32_t>(bytes + at);
    const auto flags = load<std::uint16_t>(bytes + at + 4);
    const std::size_t inside = (flags & kNodeOverflow) != 0 ? 8 : value_size;
    if (value_at + inside > size) node_outside(page);
    return {as_text({bytes + at + kNodeHeader, key_size}), flags, value_size,
            static_cast<std::uint32_t>(value_at)};
  }
  /// Returns the page number in node `i` of a branch page. REQUIRES: i < page.count.
  std::uint64_t child(const Page& page, std::uint32_t i) const;

  /// Returns where the value of a node lies, without touching it; with the header of its first
  /// page if it has pages of its own.
  Extent extent(const Page& page, const Node& node) const;
  /// Lends the value of a node, or its first `limit` bytes, until release().
  Bytes value(const Page& page, const Node& node, std::uint64_t limit = kNoLimit);

  /// True if a writer has committed since the environment was opened (only seen through a map).
  bool changed() const noexcept {
    if (map_.empty()) return false;
    const auto first = load<std::uint64_t>(map_.data() + kTransactionAt);
    const auto second = load<std::uint64_t>(map_.data() + meta_.page_size + kTransactionAt);
    return (first > second ? first : second) != meta_.transaction;
  }

  void release() noexcept { file_.release(); }
  void will_need(const Extent& extent) noexcept { file_.will_need(extent.offset, extent.length); }

  /// Throws kDataLoss for this file.
  [[noreturn]] void damaged(const std::string& place, const std::string& cause) const;

 private:
  static constexpr std::size_t kTransactionAt = 144;  // in a meta page

  Meta read_meta(std::uint64_t number, std::uint64_t offset);
  [[noreturn]] void not_understood(Bytes start);
  Bytes lend(std::uint64_t offset, std::uint64_t length) {
    const bool mapped = length <= map_.size() && offset <= map_.size() - length;
    return mapped ? Bytes{map_.data() + offset, length} : file_.bytes(offset, length);
  }
  [[noreturn]] void damaged_page(std::uint64_t number, const char* cause) const;
  [[noreturn]] void node_outside(const Page& page) const;

  shardmill::internal::InputFile file_;
  Bytes map_;  // all of the file, if it is mapped
  std::uint32_t page_shift_ = 0;
  Bytes window_;
  std::uint64_t window_first_ = 0;
  Meta meta_;
};

/// True if `start`, the first bytes of a file, or the place of its second meta page hold LMDB's
/// magic number in any variant (also those that Environment refuses).
bool has_lmdb_magic(shardmill::internal::InputFile& file);

/// Returns the data file of the environment `path`: itself, or data.mdb in a directory. Throws
/// kNotFound if there is none.
std::filesystem::path data_file_of(const std::filesystem::path& path);

}  // namespace shardmill::lmdb
