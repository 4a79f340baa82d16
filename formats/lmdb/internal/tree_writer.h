// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/internal/output_file.h"
#include "formats/lmdb/internal/environment.h"

namespace shardmill::lmdb {

/// Pages of the files that are written here, on every machine: what x86-64 and most arm64 have.
inline constexpr std::size_t kWrittenPageSize = 4096;

/// The nodes of one branch or leaf page while it is filled.
class PageDraft {
 public:
  /// True if a node of `size` bytes (a multiple of 2) still fits.
  bool fits(std::size_t size) const noexcept { return lower_ + 2 + size <= upper_; }
  bool empty() const noexcept { return lower_ == kPageHeader; }
  /// Adds a node behind all others and returns its bytes, which are zero. REQUIRES: fits(size).
  std::byte* add(std::size_t size) noexcept;
  /// Completes the header and returns the page.
  Bytes finish(std::uint64_t number, std::uint16_t type) noexcept;
  void clear() noexcept;

 private:
  std::array<std::byte, kWrittenPageSize> bytes_{};
  std::size_t lower_ = kPageHeader;
  std::size_t upper_ = kWrittenPageSize;
};

/// Writes an environment's data file with entries that come in key order: every byte once, values
/// from where they lie, as fast as a plain file. liblmdb copies each value twice more and cannot
/// stream. The result is one transaction of liblmdb's format 1: pages filled completely, nothing
/// free. One thread. Memory: 200 page numbers per level of the tree.
class TreeWriter {
 public:
  /// `shown` is what errors call the file.
  TreeWriter(const std::filesystem::path& file, std::string shown);

  /// Adds the entry `key` with the value that `pieces` give one behind the other. REQUIRES: `key`
  /// sorts behind all before and has 1 to 511 bytes, the value less than 4 GiB.
  void add(std::string_view key, std::span<const Bytes> pieces);

  /// Writes what remains and publishes the file.
  void close();

 private:
  struct Child {
    std::string first_key;
    std::uint64_t page = 0;
  };
  // The pages of one level that no branch page names yet.
  using Level = std::vector<Child>;

  std::uint64_t put_page(PageDraft& page, std::uint16_t type);
  std::uint64_t put_overflow(std::span<const Bytes> pieces, std::uint64_t size);
  void finish_leaf();
  void add_child(std::size_t level, Child child);
  void put_branch(std::size_t level, std::size_t count);
  void finish_branches();
  std::array<std::byte, 2 * kWrittenPageSize> meta_pages() const;

  shardmill::internal::OutputFile file_;
  PageDraft leaf_;
  std::string leaf_key_;  // the first of the leaf
  std::vector<Level> levels_;
  std::uint64_t next_page_ = 0;
  std::uint64_t entries_ = 0;
  std::uint64_t leaf_pages_ = 0;
  std::uint64_t branch_pages_ = 0;
  std::uint64_t overflow_pages_ = 0;
  std::uint64_t root_ = kNoPage;
  std::uint16_t depth_ = 0;
};

}  // namespace shardmill::lmdb
