// SPDX-License-Identifier: Apache-2.0
#include "formats/lmdb/internal/index.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "formats/lmdb/internal/record.h"
#include "formats/lmdb/internal/walk.h"

namespace shardmill::lmdb {

namespace {

constexpr std::uint64_t kIndexMagic = 0x3158444E49424D4C;  // "LMBINDX1"
constexpr std::size_t kMaxDescriptionBytes = 16 << 20;
constexpr std::size_t kMaxNamesListed = 8;

struct IndexHeader {
  std::uint64_t magic;
  std::uint64_t file_size;
  std::uint64_t page_size;
  std::uint64_t transaction;
  std::uint64_t root;
  std::uint64_t entries;
  std::uint64_t layout;
  std::uint64_t leaves;
};

// What decides which layout an environment has, collected while its leaves go by.
struct Clues {
  bool first_is_record = false;
  bool has_description = false;
  std::string description;
  std::vector<std::string> trees;  // names of sub-databases
};

void collect(Environment& environment, const Page& page, std::uint16_t flags, bool first,
             Clues& clues) {
  if ((flags & kNodeTree) != 0) {
    for (std::uint32_t i = 0; i < page.count && clues.trees.size() <= kMaxNamesListed; ++i) {
      const Node node = environment.node(page, i);
      if ((node.flags & kNodeTree) != 0) clues.trees.push_back('"' + escape(node.key) + '"');
    }
  }
  if (first) {
    constexpr std::uint64_t kEnough = 64;
    clues.first_is_record =
        looks_like_record(environment.value(page, environment.node(page, 0), kEnough));
  }
  const Node last = environment.node(page, page.count - 1);
  clues.has_description = last.key == kDescriptionKey;
  if (clues.has_description && last.size <= kMaxDescriptionBytes) {
    clues.description = as_text(environment.value(page, last));
  }
}

// Before the walk: in such trees neither order nor number of entries mean what it checks.
void refuse_flags(const Environment& environment) {
  const std::uint16_t flags = environment.meta().main.flags;
  if ((flags & kTreeDuplicates) != 0) {
    throw Error(ErrorCode::kUnsupported, environment.path(), {},
                "a key may have several values here (MDB_DUPSORT)",
                "copy it into an environment with one value for each key");
  }
  if ((flags & (kTreeReverseKey | kTreeIntegerKey)) != 0) {
    throw Error(ErrorCode::kUnsupported, environment.path(), {},
                "keys have an order of their own (MDB_REVERSEKEY or MDB_INTEGERKEY)",
                "copy it into an environment with keys in byte order");
  }
}

void refuse_trees(const Environment& environment, const Clues& clues) {
  if (clues.trees.empty()) return;
  std::string names;
  for (std::size_t i = 0; i < clues.trees.size(); ++i) {
    names += (i > 0 ? ", " : "") + (i < kMaxNamesListed ? clues.trees[i] : std::string("…"));
  }
  throw Error(ErrorCode::kUnsupported, environment.path(), {},
              "holds named sub-databases: " + names,
              "copy the one with the samples into an environment of its own");
}

void check_description(const Environment& environment, const Clues& clues,
                       const WalkSummary& summary) {
  const std::string place = "entry \"" + std::string(kDescriptionKey) + '"';
  const auto json = nlohmann::json::parse(clues.description, nullptr, false);
  if (!json.is_object() || !json.contains("version") || !json["version"].is_number_unsigned() ||
      !json.contains("count") || !json["count"].is_number_unsigned()) {
    environment.damaged(place, "not a JSON object with version and count");
  }
  if (json["version"] != 1) {
    throw Error(ErrorCode::kUnsupported, environment.path(), place,
                "layout version " + json["version"].dump() + ", only version 1 is known",
                "read it with a newer shardmill");
  }
  const std::uint64_t samples = summary.entries - 1;
  if (json["count"] != samples) {
    environment.damaged(place, "the shard has " + std::to_string(samples) +
                                   " samples, its description says " + json["count"].dump());
  }
  if (summary.numbered != samples) {
    environment.damaged(place, "samples are not numbered 0 to " + std::to_string(samples) +
                                   " - 1: sample " + std::to_string(summary.numbered) +
                                   " is missing or its key is damaged");
  }
}

Layout classify(const Environment& environment, const Clues& clues, const WalkSummary& summary) {
  refuse_trees(environment, clues);
  if (clues.has_description) {
    check_description(environment, clues, summary);
    return Layout::kShardmill;
  }
  // The snapshots before a shard's last transaction: no entry at all, or no description yet.
  if (summary.entries == 0) {
    environment.damaged({}, "the environment holds no entries: empty, or an older snapshot of it");
  }
  if (summary.numbered > 0 && clues.first_is_record) {
    environment.damaged({}, "the entry \"" + std::string(kDescriptionKey) +
                                "\" is missing: an older snapshot of a shard, or incomplete");
  }
  return Layout::kPlain;
}

}  // namespace

std::vector<std::byte> make_index(Environment& environment) {
  std::vector<Index::Leaf> leaves;
  Clues clues;
  std::uint64_t entries = 0;
  const Meta& meta = environment.meta();
  refuse_flags(environment);
  const WalkSummary summary =
      walk(environment, meta.main, [&](const Page& page, std::uint16_t flags) {
        entries += page.count;
        collect(environment, page, flags, leaves.empty(), clues);
        leaves.push_back({page.number, entries});
      });
  const Layout layout = classify(environment, clues, summary);
  const IndexHeader header{kIndexMagic,
                           environment.file_size(),
                           meta.page_size,
                           meta.transaction,
                           meta.main.root,
                           summary.entries,
                           static_cast<std::uint64_t>(layout),
                           leaves.size()};
  std::vector<std::byte> bytes(sizeof header + leaves.size() * sizeof(Index::Leaf));
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!leaves.empty()) {
    std::memcpy(bytes.data() + sizeof header, leaves.data(), bytes.size() - sizeof header);
  }
  return bytes;
}

Index::Index(std::span<const std::byte> bytes, const Environment& environment) {
  const auto refuse = [&](const std::string& cause) {
    throw Error(ErrorCode::kDataLoss, environment.path(), "index", cause, "make the index again");
  };
  SHARDMILL_CHECK(reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(Leaf) == 0);
  IndexHeader header{};
  if (bytes.size() < sizeof header) refuse("not an index of an LMDB environment");
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::size_t rest = bytes.size() - sizeof header;
  if (header.magic != kIndexMagic || header.layout > 1 || rest % sizeof(Leaf) != 0 ||
      header.leaves != rest / sizeof(Leaf) || header.entries < 1) {
    refuse("not an index of an LMDB environment");
  }
  const Meta& meta = environment.meta();
  if (header.file_size != environment.file_size() || header.page_size != meta.page_size ||
      header.transaction != meta.transaction || header.root != meta.main.root ||
      header.entries != meta.main.entries) {
    refuse("was made for another file, or the file has been changed since");
  }
  layout_ = static_cast<Layout>(header.layout);
  samples_ = layout_ == Layout::kShardmill ? header.entries - 1 : header.entries;
  leaves_ = {reinterpret_cast<const Leaf*>(bytes.data() + sizeof header), header.leaves};
  if (leaves_.empty() || leaves_.back().end != header.entries) {
    refuse("not an index of an LMDB environment");
  }
  leaves_per_entry_ = static_cast<double>(header.leaves) / static_cast<double>(header.entries);
}

bool Index::find(std::uint64_t n, Position& position) const noexcept {
  // Most leaves hold about the same number of entries: starts at the leaf where they would all
  // hold the same, doubles its steps until the right one is between two of them, then halves.
  const auto ends_above = [&](std::size_t leaf) { return n < leaves_[leaf].end; };
  const std::size_t last = leaves_.size() - 1;
  std::size_t low = 0;
  std::size_t high =
      std::min(last, static_cast<std::size_t>(static_cast<double>(n) * leaves_per_entry_));
  for (std::size_t step = 1; !ends_above(high); step *= 2) {
    if (high == last) return false;
    low = high + 1;
    high = std::min(last, high + step);
  }
  for (std::size_t step = 1; low < high && high >= low + step; step *= 2) {
    if (!ends_above(high - step)) {
      low = high - step + 1;
      break;
    }
    high -= step;
  }
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (ends_above(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  const std::uint64_t begin = high == 0 ? 0 : leaves_[high - 1].end;
  if (n < begin || n - begin > 0xFFFF) return false;
  position = {leaves_[high].page, static_cast<std::uint32_t>(n - begin)};
  return true;
}

}  // namespace shardmill::lmdb
