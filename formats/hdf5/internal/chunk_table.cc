// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/chunk_table.h"

#include <shardmill/formats/error.h>

#include <cstring>
#include <utility>

#include "formats/hdf5/internal/little_endian.h"
#include "formats/hdf5/internal/object_header.h"

namespace shardmill::hdf5 {

namespace {

constexpr std::size_t kNodeHeaderBytes = 24;

class TableReader {
 public:
  TableReader(internal::InputFile& file, const ChunkGrid& grid, const std::string& place)
      : file_(file), grid_(grid), place_(place) {}

  std::optional<std::vector<std::uint64_t>> read(std::uint64_t header) {
    const auto root = find_tree(header);
    if (!root) return std::nullopt;
    // Where the file is too short to hold all chunks, some are missing: no table is worth building.
    if (grid_.chunks > file_.size() / grid_.chunk_bytes) {
      return std::vector<std::uint64_t>{kNoChunk};
    }
    table_.assign(grid_.chunks, kNoChunk);
    if (*root != kNoChunk) walk(*root, -1);
    return std::move(table_);
  }

 private:
  [[noreturn]] void damaged(const std::string& cause) const {
    throw Error(ErrorCode::kDataLoss, file_.path(), place_, cause,
                "copy or convert the file again");
  }

  // Copies a piece at an address as stored; the file itself may be read in buffers.
  Bytes stored(std::uint64_t address, std::uint64_t length) {
    std::uint64_t at = 0;
    if (__builtin_add_overflow(address, grid_.base, &at)) damaged("address outside the file");
    if (at > file_.size() || length > file_.size() - at) damaged("address outside the file");
    file_.release();
    return file_.bytes(at, length);
  }

  // The address of the B-tree's root from the layout message of an object header.
  std::optional<std::uint64_t> find_tree(std::uint64_t header) {
    for (const HeaderMessage& message : read_object_header(file_, grid_.base, header, place_)) {
      if (message.type == kLayoutMessage) return tree_of_layout(message.body);
    }
    return std::nullopt;
  }

  // Version 3, class 2: rank + 1, the tree's address, the chunk's extents. Others: other indices.
  std::optional<std::uint64_t> tree_of_layout(Bytes body) const {
    if (body.size() < 11 || body[0] != std::byte{3} || body[1] != std::byte{2}) {
      return std::nullopt;
    }
    if (static_cast<unsigned>(body[2]) != grid_.rank + 1) damaged("layout contradicts the shape");
    return little_endian<std::uint64_t>(body, 3);
  }

  // Levels must fall by one from node to node, so that no damage can make the walk endless.
  void walk(std::uint64_t address, int level) {
    if (++nodes_ > 2 * grid_.chunks + 64) damaged("chunk B-tree has more nodes than chunks");
    const Bytes head = stored(address, kNodeHeaderBytes);
    if (std::memcmp(head.data(), "TREE", 4) != 0 || head[4] != std::byte{1}) {
      damaged("no chunk B-tree node at address " + std::to_string(address));
    }
    const int own_level = static_cast<int>(head[5]);
    if (level >= 0 && own_level != level) damaged("chunk B-tree levels contradict each other");
    const std::size_t entries = little_endian<std::uint16_t>(head, 6);
    const std::size_t key = 8 + 8 * (std::size_t{grid_.rank} + 1);
    const Bytes lent = stored(address + kNodeHeaderBytes, entries * (key + 8) + key);
    const std::vector<std::byte> node(lent.begin(), lent.end());  // children reuse the buffer
    for (std::size_t i = 0; i < entries; ++i) {
      const Bytes entry = Bytes(node).subspan(i * (key + 8), key + 8);
      const auto child = little_endian<std::uint64_t>(entry, key);
      if (own_level > 0) {
        walk(child, own_level - 1);
      } else {
        add(entry, child);
      }
    }
  }

  void add(Bytes entry, std::uint64_t address) {
    if (little_endian<std::uint32_t>(entry, 0) != grid_.chunk_bytes) {
      damaged("chunk of unexpected size");
    }
    const auto row = little_endian<std::uint64_t>(entry, 8);
    for (unsigned d = 1; d <= grid_.rank; ++d) {
      if (little_endian<std::uint64_t>(entry, 8 + 8 * std::size_t{d}) != 0) {
        damaged("chunk outside the dataset");
      }
    }
    if (row % grid_.chunk_rows != 0 || row / grid_.chunk_rows >= grid_.chunks) {
      damaged("chunk outside the dataset");
    }
    std::uint64_t& slot = table_[row / grid_.chunk_rows];
    if (slot != kNoChunk) damaged("two chunks for the same elements");
    std::uint64_t at = 0;
    if (__builtin_add_overflow(address, grid_.base, &at) || at > file_.size() ||
        grid_.chunk_bytes > file_.size() - at) {
      damaged("chunk at address " + std::to_string(address) + " lies outside the file");
    }
    slot = at;
  }

  internal::InputFile& file_;
  const ChunkGrid& grid_;
  const std::string& place_;
  std::uint64_t nodes_ = 0;
  std::vector<std::uint64_t> table_;
};

}  // namespace

std::optional<std::vector<std::uint64_t>> read_chunk_table(internal::InputFile& file,
                                                           std::uint64_t header,
                                                           const ChunkGrid& grid,
                                                           const std::string& place) {
  return TableReader(file, grid, place).read(header);
}

}  // namespace shardmill::hdf5
