// SPDX-License-Identifier: Apache-2.0
#include "formats/lmdb/internal/tree_writer.h"

#include <shardmill/formats/error.h>

#include <algorithm>

namespace shardmill::lmdb {

namespace {

constexpr std::array<std::byte, kWrittenPageSize> kZeros{};
// liblmdb puts values elsewhere unless two nodes fit into a page.
constexpr std::size_t kMaxNode = ((kWrittenPageSize - kPageHeader) / 2 & ~std::size_t{1}) - 2;
// People who add entries with liblmdb's own defaults find some room.
constexpr std::uint64_t kMinMapBytes = 1 << 20;

template <typename T>
void store(std::byte* bytes, T value) noexcept {
  std::memcpy(bytes, &value, sizeof value);
}

constexpr std::size_t even(std::size_t n) { return (n + 1) & ~std::size_t{1}; }

// Fills a leaf node's header and key; returns where its value goes.
std::byte* start_leaf_node(std::byte* node, std::uint64_t value_size, std::uint16_t flags,
                           std::string_view key) {
  store(node, static_cast<std::uint32_t>(value_size));
  store(node + 4, flags);
  store(node + 6, static_cast<std::uint16_t>(key.size()));
  std::memcpy(node + kNodeHeader, key.data(), key.size());
  return node + kNodeHeader + key.size();
}

// The first node of a branch page stands for all smaller keys and has none.
std::size_t branch_node_size(std::string_view key, bool first) {
  return even(kNodeHeader + (first ? 0 : key.size()));
}

}  // namespace

std::byte* PageDraft::add(std::size_t size) noexcept {
  upper_ -= size;
  store(bytes_.data() + lower_, static_cast<std::uint16_t>(upper_));
  lower_ += 2;
  return bytes_.data() + upper_;
}

Bytes PageDraft::finish(std::uint64_t number, std::uint16_t type) noexcept {
  store(bytes_.data(), number);
  store(bytes_.data() + 10, type);
  store(bytes_.data() + 12, static_cast<std::uint16_t>(lower_));
  store(bytes_.data() + 14, static_cast<std::uint16_t>(upper_));
  return bytes_;
}

void PageDraft::clear() noexcept {
  bytes_.fill(std::byte{0});
  lower_ = kPageHeader;
  upper_ = kWrittenPageSize;
}

TreeWriter::TreeWriter(const std::filesystem::path& file, std::string shown)
    : file_(file, std::move(shown)) {
  // The meta pages are written last: until then the file is none of LMDB.
  file_.write(kZeros);
  file_.write(kZeros);
  next_page_ = 2;
}

void TreeWriter::add(std::string_view key, std::span<const Bytes> pieces) {
  std::uint64_t size = 0;
  for (const Bytes piece : pieces) size += piece.size();
  const bool overflow = kNodeHeader + key.size() + size > kMaxNode;
  const std::size_t inside = overflow ? sizeof(std::uint64_t) : static_cast<std::size_t>(size);
  const std::size_t node_size = even(kNodeHeader + key.size() + inside);
  if (!leaf_.fits(node_size)) finish_leaf();
  if (leaf_.empty()) leaf_key_ = key;
  const std::uint64_t page = overflow ? put_overflow(pieces, size) : 0;
  std::byte* value =
      start_leaf_node(leaf_.add(node_size), size, overflow ? kNodeOverflow : std::uint16_t{0}, key);
  if (overflow) {
    store(value, page);
  } else {
    for (const Bytes piece : pieces) value = std::copy(piece.begin(), piece.end(), value);
  }
  ++entries_;
}

std::uint64_t TreeWriter::put_page(PageDraft& page, std::uint16_t type) {
  const std::uint64_t number = next_page_++;
  file_.write(page.finish(number, type));
  page.clear();
  return number;
}

std::uint64_t TreeWriter::put_overflow(std::span<const Bytes> pieces, std::uint64_t size) {
  const std::uint64_t pages = (kPageHeader - 1 + size) / kWrittenPageSize + 1;
  const std::uint64_t number = next_page_;
  std::array<std::byte, kPageHeader> header{};
  store(header.data(), number);
  store(header.data() + 10, kOverflowPage);
  store(header.data() + 12, static_cast<std::uint32_t>(pages));
  file_.write(header);
  for (const Bytes piece : pieces) file_.write(piece);
  file_.write(Bytes(kZeros).first(pages * kWrittenPageSize - kPageHeader - size));
  next_page_ += pages;
  overflow_pages_ += pages;
  return number;
}

void TreeWriter::finish_leaf() {
  const std::uint64_t page = put_page(leaf_, kLeafPage);
  ++leaf_pages_;
  add_child(0, {leaf_key_, page});
}

// liblmdb insists on two children in every branch page, so the last two always wait: they may be
// all that the last page of a level gets.
void TreeWriter::add_child(std::size_t level, Child child) {
  if (level == levels_.size()) levels_.emplace_back();
  Level& children = levels_[level];
  children.push_back(std::move(child));
  std::size_t room = kWrittenPageSize - kPageHeader;
  std::size_t fit = 0;
  for (; fit < children.size(); ++fit) {
    const std::size_t size = 2 + branch_node_size(children[fit].first_key, fit == 0);
    if (size > room) break;
    room -= size;
  }
  if (children.size() >= fit + 2) put_branch(level, fit);
}

// Makes the first `count` children of a level a page, which is a child of the next level.
void TreeWriter::put_branch(std::size_t level, std::size_t count) {
  Level& children = levels_[level];
  PageDraft draft;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view key = i == 0 ? std::string_view() : children[i].first_key;
    std::byte* node = draft.add(branch_node_size(key, i == 0));
    // The page number's lower 32 bits lie where leaf nodes have their size, the upper in the flags.
    store(node, static_cast<std::uint32_t>(children[i].page));
    store(node + 4, static_cast<std::uint16_t>(children[i].page >> 32));
    store(node + 6, static_cast<std::uint16_t>(key.size()));
    std::copy(key.begin(), key.end(), reinterpret_cast<char*>(node + kNodeHeader));
  }
  Child parent{std::move(children.front().first_key), put_page(draft, kBranchPage)};
  ++branch_pages_;
  children.erase(children.begin(), children.begin() + static_cast<std::ptrdiff_t>(count));
  add_child(level + 1, std::move(parent));
}

void TreeWriter::finish_branches() {
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    if (level + 1 == levels_.size() && levels_[level].size() == 1) {
      root_ = levels_[level].front().page;
      depth_ = static_cast<std::uint16_t>(level + 1);
      return;
    }
    // What is left fits into one page, or is one child more than that.
    const std::size_t left = levels_[level].size();
    std::size_t size = kPageHeader;
    for (std::size_t i = 0; i < left; ++i) {
      size += 2 + branch_node_size(levels_[level][i].first_key, i == 0);
    }
    if (size > kWrittenPageSize) put_branch(level, left - 2);
    put_branch(level, levels_[level].size());
  }
}

std::array<std::byte, 2 * kWrittenPageSize> TreeWriter::meta_pages() const {
  std::array<std::byte, 2 * kWrittenPageSize> pages{};
  const std::uint64_t map_bytes = std::max(kMinMapBytes, next_page_ * kWrittenPageSize);
  // As after liblmdb's first transaction: page 0 has the empty environment, page 1 the entries.
  for (std::uint64_t number = 0; number < 2; ++number) {
    std::byte* page = pages.data() + number * kWrittenPageSize;
    const bool filled = number == 1;
    store(page, number);
    store(page + 10, kMetaPage);
    store(page + 16, std::uint32_t{0xBEEFC0DE});
    store(page + 20, std::uint32_t{1});  // version of the data format
    store(page + 32, map_bytes);
    // The tree of free pages, in whose unused field the page size stands.
    store(page + 40, static_cast<std::uint32_t>(kWrittenPageSize));
    store(page + 44, kTreeIntegerKey);
    store(page + 80, kNoPage);
    std::byte* main = page + 88;
    if (filled) {
      store(main + 6, depth_);
      store(main + 8, branch_pages_);
      store(main + 16, leaf_pages_);
      store(main + 24, overflow_pages_);
      store(main + 32, entries_);
    }
    store(main + 40, filled ? root_ : kNoPage);
    store(page + 136, filled ? next_page_ - 1 : std::uint64_t{1});  // the last page
    store(page + 144, number);                                      // the transaction
  }
  return pages;
}

void TreeWriter::close() {
  if (!leaf_.empty()) finish_leaf();
  finish_branches();
  file_.rewrite(0, meta_pages());
  file_.close();
}

}  // namespace shardmill::lmdb
