// SPDX-License-Identifier: Apache-2.0
#include "formats/lmdb/internal/environment.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace shardmill::lmdb {

namespace fs = std::filesystem;
using shardmill::internal::InputFile;

namespace {

constexpr std::uint32_t kMagic = 0xBEEFC0DE;
constexpr std::uint32_t kMagicSwapped = 0xDEC0EFBE;
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kMetaBytes = 152;  // header and meta data of a meta page
constexpr std::uint64_t kMinPage = 512;
constexpr std::uint64_t kMaxPage = 32768;
constexpr std::uint16_t kPageTypes = 0x2F;  // branch, leaf, overflow, meta, fixed-size duplicates

// Offsets in a meta page.
constexpr std::size_t kMagicAt = 16;
constexpr std::size_t kMagicAt32Bit = 12;  // where page numbers have four bytes
constexpr std::size_t kVersionAt = 20;
constexpr std::size_t kMapSizeAt = 32;
constexpr std::size_t kPageSizeAt = 40;
constexpr std::size_t kMainTreeAt = 88;

bool is_page_size(std::uint64_t size) {
  return size >= kMinPage && size <= kMaxPage && std::has_single_bit(size);
}

bool magic_at(Bytes bytes, std::size_t offset, std::uint32_t magic) {
  return bytes.size() >= offset + 4 && load<std::uint32_t>(bytes.data() + offset) == magic;
}

std::string page_place(std::uint64_t number) { return "page " + std::to_string(number); }

}  // namespace

Tree parse_tree(const std::byte* bytes) noexcept {
  return {load<std::uint16_t>(bytes + 4), load<std::uint16_t>(bytes + 6),
          load<std::uint64_t>(bytes + 32), load<std::uint64_t>(bytes + 40)};
}

bool has_lmdb_magic(InputFile& file) {
  const auto start = [&file](std::uint64_t offset) {
    return offset >= file.size()
               ? Bytes{}
               : file.bytes(offset, std::min<std::uint64_t>(kMetaBytes, file.size() - offset));
  };
  const Bytes first = start(0);
  if (magic_at(first, kMagicAt, kMagic) || magic_at(first, kMagicAt32Bit, kMagic) ||
      magic_at(first, kMagicAt, kMagicSwapped)) {
    return true;
  }
  for (std::uint64_t size = kMinPage; size <= kMaxPage; size *= 2) {
    if (magic_at(start(size), kMagicAt, kMagic)) return true;
  }
  return false;
}

fs::path data_file_of(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  const fs::path file = path / "data.mdb";
  if (!fs::exists(file, error)) {
    throw Error(ErrorCode::kNotFound, path.string(), {},
                "no data.mdb in this directory: not an LMDB environment",
                "give the directory that holds data.mdb, or the file itself");
  }
  return file;
}

Environment::Environment(const fs::path& file, Access access) : file_(file, access) {
  if (file_.size() < kMetaBytes) {
    throw Error(ErrorCode::kDataLoss, path(), {},
                "not an LMDB file: it has only " + std::to_string(file_.size()) + " bytes");
  }
  const Bytes start = file_.bytes(0, kMetaBytes);
  if (!magic_at(start, kMagicAt, kMagic)) not_understood(start);
  const Meta first = read_meta(0, 0);
  const Meta second = read_meta(1, first.page_size);
  if (second.page_size != first.page_size) {
    damaged(page_place(1), "the two meta pages give different page sizes");
  }
  // Transactions write the two pages in turn. A page that is further behind was damaged, and the
  // other may be the older one: an older snapshot would have fewer entries.
  const auto [older, newer] = std::minmax(first.transaction, second.transaction);
  if (first.transaction % 2 != 0 || newer - older > 1) {
    damaged("page 0 and 1", "the transaction numbers of the two meta pages, " +
                                std::to_string(first.transaction) + " and " +
                                std::to_string(second.transaction) + ", do not follow each other");
  }
  meta_ = second.transaction > first.transaction ? second : first;
  page_shift_ = static_cast<std::uint32_t>(std::countr_zero(meta_.page_size));
  if (file_.mapped()) map_ = file_.bytes(0, file_.size());
  release();
}

void Environment::not_understood(Bytes start) {
  const auto unsupported = [this](const std::string& cause, const std::string& remedy) {
    throw Error(ErrorCode::kUnsupported, path(), {}, cause, remedy);
  };
  const std::string dump = "dump it with mdb_dump there and load it with mdb_load here";
  if (magic_at(start, kMagicAt, kMagicSwapped)) {
    unsupported("LMDB file of a big-endian machine", dump);
  }
  if (magic_at(start, kMagicAt32Bit, kMagic)) {
    unsupported("LMDB file of a 32-bit program: its page headers differ", dump);
  }
  if (has_lmdb_magic(file_)) {
    damaged(page_place(0), "the first meta page lacks LMDB's magic number");
  }
  unsupported("not an LMDB file: no magic number in its first page", {});
  __builtin_unreachable();
}

Meta Environment::read_meta(std::uint64_t number, std::uint64_t offset) {
  if (offset > file_.size() - kMetaBytes) {
    damaged(page_place(number), "file ends before its second meta page: truncated");
  }
  const std::byte* bytes = file_.bytes(offset, kMetaBytes).data();
  if (load<std::uint32_t>(bytes + kMagicAt) != kMagic || load<std::uint64_t>(bytes) != number ||
      (load<std::uint16_t>(bytes + 10) & kMetaPage) == 0) {
    damaged(page_place(number), "damaged meta page");
  }
  const auto version = load<std::uint32_t>(bytes + kVersionAt);
  if (version != kVersion) {
    throw Error(ErrorCode::kUnsupported, path(), page_place(number),
                "LMDB data format " + std::to_string(version) + ", only format 1 is known");
  }
  Meta meta;
  meta.page_size = load<std::uint32_t>(bytes + kPageSizeAt);
  meta.map_size = load<std::uint64_t>(bytes + kMapSizeAt);
  meta.transaction = load<std::uint64_t>(bytes + kTransactionAt);
  meta.main = parse_tree(bytes + kMainTreeAt);
  if (!is_page_size(meta.page_size)) {
    damaged(page_place(number), "absurd page size " + std::to_string(meta.page_size));
  }
  return meta;
}

Page Environment::page(std::uint64_t number, std::uint16_t type) {
  const std::uint64_t size = meta_.page_size;
  if (number < 2 || number >= file_.size() >> page_shift_) {
    damaged_page(number, "page lies outside the file: truncated");
  }
  const std::uint64_t in_window = number - window_first_;  // huge if it lies in front of it
  const Bytes bytes = in_window < window_.size() >> page_shift_
                          ? window_.subspan(in_window << page_shift_, size)
                          : lend(number << page_shift_, size);
  const std::byte* header = bytes.data();
  if (load<std::uint64_t>(header) != number ||
      (load<std::uint16_t>(header + 10) & kPageTypes) != type) {
    damaged_page(number, "damaged page header");
  }
  const std::uint32_t lower = load<std::uint16_t>(header + 12);
  const std::uint32_t upper = load<std::uint16_t>(header + 14);
  if (lower < kPageHeader || lower > upper || upper > size || lower % 2 != 0) {
    damaged_page(number, "damaged page header");
  }
  return {number, bytes, static_cast<std::uint32_t>((lower - kPageHeader) / 2)};
}

std::uint64_t Environment::child(const Page& page, std::uint32_t i) const {
  const std::byte* bytes = page.bytes.data();
  const std::size_t at = load<std::uint16_t>(bytes + kPageHeader + 2 * i);
  if (at < kPageHeader + 2 * page.count || at + kNodeHeader > page.bytes.size()) {
    node_outside(page);
  }
  // Branch nodes use the bits of size and flags for the 48 bits of a page number.
  return load<std::uint32_t>(bytes + at) |
         static_cast<std::uint64_t>(load<std::uint16_t>(bytes + at + 4)) << 32;
}

Extent Environment::extent(const Page& page, const Node& node) const {
  const std::uint64_t page_size = meta_.page_size;
  if ((node.flags & kNodeOverflow) == 0) return {page.number * page_size + node.offset, node.size};
  const auto first = load<std::uint64_t>(page.bytes.data() + node.offset);
  const std::uint64_t length = kPageHeader + std::uint64_t{node.size};
  if (first < 2 || first >= file_.size() >> page_shift_ ||
      length > file_.size() - first * page_size) {
    damaged_page(page.number, "a value lies outside the file: truncated");
  }
  return {first * page_size, length};
}

Bytes Environment::value(const Page& page, const Node& node, std::uint64_t limit) {
  const std::uint64_t size = std::min<std::uint64_t>(node.size, limit);
  if ((node.flags & kNodeOverflow) == 0) return page.bytes.subspan(node.offset, size);
  const Extent where = extent(page, node);
  const Bytes bytes = lend(where.offset, kPageHeader + size);
  const std::uint64_t number = where.offset >> page_shift_;
  const std::uint64_t pages = load<std::uint32_t>(bytes.data() + 12);
  if (load<std::uint64_t>(bytes.data()) != number ||
      (load<std::uint16_t>(bytes.data() + 10) & kPageTypes) != kOverflowPage ||
      where.length > pages * meta_.page_size) {
    damaged_page(number, "damaged header of a value's pages");
  }
  return bytes.subspan(kPageHeader);
}

void Environment::damaged(const std::string& place, const std::string& cause) const {
  throw Error(ErrorCode::kDataLoss, path(), place, cause, "copy or convert the file again");
}

void Environment::damaged_page(std::uint64_t number, const char* cause) const {
  damaged(page_place(number), cause);
}

void Environment::node_outside(const Page& page) const {
  damaged_page(page.number, "a node lies outside its page");
}

}  // namespace shardmill::lmdb
