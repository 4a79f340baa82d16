// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/flat_index.h"

#include <shardmill/formats/error.h>

#include <cstring>
#include <utility>

namespace shardmill::internal {

namespace {

struct Head {
  std::uint64_t magic;
  std::uint64_t size;
  std::uint64_t sections;
};
struct Section {
  std::uint64_t offset;
  std::uint64_t size;
};

constexpr std::uint64_t aligned(std::uint64_t n) { return (n + 7) / 8 * 8; }

}  // namespace

std::vector<std::byte> FlatIndexWriter::finish() const {
  std::vector<Section> table;
  std::uint64_t at = sizeof(Head) + sections_.size() * sizeof(Section);
  for (const Bytes section : sections_) {
    table.push_back({at, section.size()});
    at += aligned(section.size());
  }
  const Head head{magic_, at, sections_.size()};
  std::vector<std::byte> bytes(at);
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + sizeof head, table.data(), table.size() * sizeof(Section));
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (sections_[i].empty()) continue;
    std::memcpy(bytes.data() + table[i].offset, sections_[i].data(), sections_[i].size());
  }
  return bytes;
}

FlatIndexReader::FlatIndexReader(Bytes bytes, std::uint64_t magic, std::size_t sections,
                                 std::string path)
    : bytes_(bytes), path_(std::move(path)) {
  SHARDMILL_CHECK(reinterpret_cast<std::uintptr_t>(bytes.data()) % 8 == 0);
  Head head{};
  if (bytes.size() < sizeof head) damaged("it is cut off");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != magic) damaged("it was made for another format or by another version");
  if (head.size != bytes.size()) damaged("it is cut off");
  const std::uint64_t room = bytes.size() - sizeof head;
  if (head.sections < sections || head.sections > room / sizeof(Section)) {
    damaged("its table is cut off");
  }
  const auto* table = reinterpret_cast<const Section*>(bytes.data() + sizeof head);
  for (std::size_t i = 0; i < head.sections; ++i) {
    const auto [offset, size] = table[i];
    if (offset % 8 != 0 || offset > bytes.size() || size > bytes.size() - offset) {
      damaged("a section lies outside");
    }
  }
}

Bytes FlatIndexReader::section(std::size_t i) const {
  const auto* table = reinterpret_cast<const Section*>(bytes_.data() + sizeof(Head));
  return bytes_.subspan(table[i].offset, table[i].size);
}

void FlatIndexReader::damaged(std::string_view cause) const {
  throw Error(ErrorCode::kDataLoss, path_, {}, "damaged index: " + std::string(cause),
              "build the index again");
}

void append_item(std::string& list, std::string_view item) {
  list += item;
  list += '\0';
}

std::vector<std::string> split_items(std::string_view list) {
  std::vector<std::string> items;
  while (!list.empty()) {
    const std::size_t end = list.find('\0');
    items.emplace_back(list.substr(0, end));
    if (end == std::string_view::npos) break;
    list.remove_prefix(end + 1);
  }
  return items;
}

}  // namespace shardmill::internal
