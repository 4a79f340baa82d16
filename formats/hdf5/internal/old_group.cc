// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/old_group.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <cstring>

#include "formats/hdf5/internal/little_endian.h"

namespace shardmill::hdf5 {

namespace {

constexpr unsigned kSymbolTableMessage = 0x11;
constexpr std::size_t kTreeHeaderBytes = 24;
constexpr std::size_t kSymbolHeaderBytes = 8;
constexpr std::size_t kSymbolBytes = 40;
constexpr std::size_t kHeapHeaderBytes = 32;
constexpr std::uint64_t kNoFreeBlock = 1;
constexpr std::uint32_t kCachedSoftLink = 2;

class OldGroup {
 public:
  OldGroup(internal::InputFile& file, const Superblock& superblock, const std::string& place)
      : file_(file), superblock_(superblock), place_(place) {}

  void check(std::uint64_t tree, std::uint64_t heap) {
    read_heap(heap);
    check_node(tree, -1);
  }

 private:
  [[noreturn]] void damaged(const std::string& cause) const {
    throw Error(ErrorCode::kDataLoss, file_.path(), place_, cause,
                "copy or convert the file again");
  }

  // Copied, because the file may be read in buffers.
  std::vector<std::byte> stored(std::uint64_t address, std::uint64_t length) {
    std::uint64_t at = 0;
    const std::uint64_t end = superblock_.end_of_file;
    if (__builtin_add_overflow(address, superblock_.base, &at) || at > end || length > end - at) {
      damaged("a part of the group lies outside the file");
    }
    file_.release();
    const Bytes bytes = file_.bytes(at, length);
    return {bytes.begin(), bytes.end()};
  }

  void read_heap(std::uint64_t address) {
    const auto head = stored(address, kHeapHeaderBytes);
    if (std::memcmp(head.data(), "HEAP", 4) != 0) damaged("the heap of its names is damaged");
    heap_ = stored(little_endian<std::uint64_t>(head, 24), little_endian<std::uint64_t>(head, 8));
    // Each free block begins with where the next one is and its own size.
    std::uint64_t free = little_endian<std::uint64_t>(head, 16);
    for (std::size_t seen = 0; free != kNoFreeBlock; ++seen) {
      if (heap_.size() < 16 || free > heap_.size() - 16 || seen > heap_.size() / 16 ||
          little_endian<std::uint64_t>(heap_, free + 8) > heap_.size() - free) {
        damaged("the free list of the heap of its names is damaged");
      }
      free = little_endian<std::uint64_t>(heap_, free);
    }
  }

  void check_name(std::uint64_t offset) const {
    if (offset >= heap_.size() ||
        std::memchr(heap_.data() + offset, 0, heap_.size() - offset) == nullptr) {
      damaged("a name lies outside the heap of names");
    }
  }

  // Levels fall by one from node to node, so that no damage can make the walk endless.
  void check_node(std::uint64_t address, int level) {
    if (++nodes_ > file_.size() / kTreeHeaderBytes) damaged("its B-tree has no end");
    const auto head = stored(address, kTreeHeaderBytes);
    if (std::memcmp(head.data(), "TREE", 4) != 0 || head[4] != std::byte{0} ||
        (level >= 0 && static_cast<int>(head[5]) != level)) {
      damaged("no B-tree node where one should be");
    }
    const std::size_t entries = little_endian<std::uint16_t>(head, 6);
    if (superblock_.tree_rank != 0 && entries > 2 * std::size_t{superblock_.tree_rank}) {
      damaged("more entries in a B-tree node than fit");
    }
    const auto body = stored(address + kTreeHeaderBytes, 16 * entries + 8);
    for (std::size_t i = 0; i <= entries; ++i) {
      // Some writers leave rubbish in the last one; the library looks at those in the heap.
      const auto key = little_endian<std::uint64_t>(body, 16 * i);
      if (key < heap_.size()) check_name(key);
    }
    for (std::size_t i = 0; i < entries; ++i) {
      const auto child = little_endian<std::uint64_t>(body, 16 * i + 8);
      if (head[5] == std::byte{0}) {
        check_symbols(child);
      } else {
        check_node(child, static_cast<int>(head[5]) - 1);
      }
    }
  }

  void check_symbols(std::uint64_t address) {
    const auto head = stored(address, kSymbolHeaderBytes);
    if (std::memcmp(head.data(), "SNOD", 4) != 0) damaged("no table of names where one should be");
    const std::size_t symbols = little_endian<std::uint16_t>(head, 6);
    if (superblock_.leaf_rank != 0 && symbols > 2 * std::size_t{superblock_.leaf_rank}) {
      damaged("more names in a table than fit");
    }
    const auto body = stored(address + kSymbolHeaderBytes, symbols * kSymbolBytes);
    for (std::size_t at = 0; at < body.size(); at += kSymbolBytes) {
      check_name(little_endian<std::uint64_t>(body, at));
      if (little_endian<std::uint32_t>(body, at + 16) == kCachedSoftLink) {
        check_name(little_endian<std::uint32_t>(body, at + 24));
      }
    }
  }

  internal::InputFile& file_;
  const Superblock& superblock_;
  const std::string& place_;
  std::vector<std::byte> heap_;
  std::uint64_t nodes_ = 0;
};

}  // namespace

void check_old_group(internal::InputFile& file, const Superblock& superblock,
                     const std::vector<HeaderMessage>& header, const std::string& place) {
  for (const HeaderMessage& message : header) {
    if (message.type != kSymbolTableMessage || message.body.size() < 16) continue;
    OldGroup(file, superblock, place)
        .check(little_endian<std::uint64_t>(message.body, 0),
               little_endian<std::uint64_t>(message.body, 8));
  }
}

void check_cached_root(internal::InputFile& file, const Superblock& superblock) {
  if (!superblock.root_is_cached) return;
  const std::string place = "root group";
  OldGroup(file, superblock, place).check(superblock.root_tree, superblock.root_heap);
}

}  // namespace shardmill::hdf5
