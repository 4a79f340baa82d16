// SPDX-License-Identifier: Apache-2.0
#include "formats/lmdb/internal/index.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>

#include "formats/lmdb/internal/datum.h"
#include "formats/lmdb/internal/record.h"
#include "formats/lmdb/internal/walk.h"

namespace shardmill::lmdb {

namespace {

constexpr std::uint64_t kIndexMagic = 0x3258444E49424D4C;  // "LMBINDX2"
constexpr std::size_t kMaxDescriptionBytes = 16 << 20;
constexpr std::size_t kMaxNamesListed = 8;
constexpr std::array<std::string_view, 4> kFields = {"bin", "jpg", "png", "webp"};
constexpr std::string_view kFirstTextKey = "image-";
constexpr std::string_view kLastTextKey = "num_samples";

struct IndexHeader {
  std::uint64_t magic;
  std::uint64_t file_size;
  std::uint64_t page_size;
  std::uint64_t transaction;
  std::uint64_t main_root;
  std::uint64_t root;
  std::uint64_t entries;
  std::uint64_t layout;
  std::uint64_t samples;
  std::uint64_t field;  // in kFields
  std::uint64_t first_image;
  std::uint64_t first_label;
  std::uint64_t leaves;
};

// Numbered entries `image-000000001` …
struct Run {
  std::uint64_t first = 0;  // entry number of number 1
  std::uint64_t count = 0;  // how many follow each other from 1 on
  std::uint64_t all = 0;

  void add(std::uint64_t number, std::uint64_t entry) {
    if (number == 0) return;
    if (number == 1) first = entry;
    if (number == count + 1) ++count;
    ++all;
  }
};

// What decides which layout an environment has, collected while its leaves go by.
struct Clues {
  bool first_is_record = false;
  bool first_is_datum = false;
  bool first_is_pickled = false;
  bool first_has_lsun_key = false;
  std::string_view field = kFields[0];
  bool has_field = false;
  bool has_description = false;
  std::string description;
  std::vector<std::string> trees;  // names of sub-databases
  Run images;
  Run labels;
  std::string count;  // value of num-samples
};

void look_at_first(Environment& environment, const Page& page, Clues& clues) {
  const Node node = environment.node(page, 0);
  if ((node.flags & kNodeTree) != 0) return;
  const Bytes value = environment.value(page, node);
  Datum datum;
  clues.first_is_record = looks_like_record(value);
  clues.first_is_datum = parse_datum(value, datum) == nullptr;
  clues.first_is_pickled = looks_pickled(value);
  clues.first_has_lsun_key = is_lsun_key(node.key);
}

// The first value that is not empty says which field the others are that do not say it.
void look_for_field(Environment& environment, const Page& page, Clues& clues) {
  constexpr std::uint64_t kEnough = 16;
  for (std::uint32_t i = 0; i < page.count && !clues.has_field; ++i) {
    const Node node = environment.node(page, i);
    if (node.size == 0 || (node.flags & kNodeTree) != 0) continue;
    clues.field = payload_field(environment.value(page, node, kEnough));
    clues.has_field = true;
  }
}

void look_for_text(Environment& environment, const Page& page, std::uint64_t entry, Clues& clues) {
  if (environment.node(page, 0).key > kLastTextKey ||
      environment.node(page, page.count - 1).key < kFirstTextKey) {
    return;
  }
  for (std::uint32_t i = 0; i < page.count; ++i) {
    const Node node = environment.node(page, i);
    clues.images.add(text_number("image", node.key), entry + i);
    clues.labels.add(text_number("label", node.key), entry + i);
    if ((node.key == "num-samples" || node.key == kLastTextKey) && node.size < 20) {
      clues.count = as_text(environment.value(page, node));
    }
  }
}

void collect(Environment& environment, const Page& page, std::uint16_t flags, std::uint64_t entry,
             Clues& clues) {
  if ((flags & kNodeTree) != 0) {
    for (std::uint32_t i = 0; i < page.count && clues.trees.size() <= kMaxNamesListed; ++i) {
      const Node node = environment.node(page, i);
      if ((node.flags & kNodeTree) != 0) clues.trees.push_back(escape(node.key));
    }
  }
  if (entry == 0) look_at_first(environment, page, clues);
  if (!clues.has_field) look_for_field(environment, page, clues);
  look_for_text(environment, page, entry, clues);
  const Node last = environment.node(page, page.count - 1);
  clues.has_description = last.key == kDescriptionKey && (last.flags & kNodeTree) == 0;
  if (clues.has_description && last.size <= kMaxDescriptionBytes) {
    clues.description = as_text(environment.value(page, last));
  }
}

// Before the walk: in such trees neither order nor number of entries mean what it checks.
void refuse_flags(const Environment& environment, const Tree& tree) {
  if ((tree.flags & kTreeDuplicates) != 0) {
    throw Error(ErrorCode::kUnsupported, environment.path(), {},
                "a key may have several values here (MDB_DUPSORT)",
                "copy it into an environment with one value for each key");
  }
  if ((tree.flags & (kTreeReverseKey | kTreeIntegerKey)) != 0) {
    throw Error(ErrorCode::kUnsupported, environment.path(), {},
                "keys have an order of their own (MDB_REVERSEKEY or MDB_INTEGERKEY)",
                "copy it into an environment with keys in byte order");
  }
}

std::string list_of(const std::vector<std::string>& names, std::string_view before,
                    std::string_view after) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i <= kMaxNamesListed; ++i) {
    if (i > 0) text += ", ";
    if (i == kMaxNamesListed) return text + "…";
    text.append(before).append(names[i]).append(after);
  }
  return text;
}

void refuse_trees(const Environment& environment, const std::vector<std::string>& trees) {
  if (trees.empty()) return;
  throw Error(ErrorCode::kUnsupported, environment.path(), {},
              "holds named sub-databases: " + list_of(trees, "\"", "\""),
              "choose one: " + list_of(trees, escape(environment.path()) + '#', ""));
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

// Returns the tree of a sub-database; the walk checks the entries that it passes.
Tree find_tree(Environment& environment, const std::string& name) {
  std::optional<Tree> found;
  std::vector<std::string> trees;
  const Tree& main = environment.meta().main;
  refuse_flags(environment, main);
  walk(environment, main, [&](const Page& page, std::uint16_t flags) {
    if ((flags & kNodeTree) == 0) return;
    for (std::uint32_t i = 0; i < page.count; ++i) {
      const Node node = environment.node(page, i);
      if ((node.flags & kNodeTree) == 0) continue;
      if (node.size != kTreeBytes || (node.flags & kNodeOverflow) != 0) {
        environment.damaged("page " + std::to_string(page.number), "damaged sub-database");
      }
      if (node.key == name) found = parse_tree(page.bytes.data() + node.offset);
      if (trees.size() <= kMaxNamesListed) trees.push_back(escape(node.key));
    }
  });
  if (found) return *found;
  throw Error(ErrorCode::kInvalidArgument, environment.path(), {},
              "holds no sub-database \"" + escape(name) + '"',
              trees.empty() ? "it holds none: leave out what follows the #"
                            : "it holds " + list_of(trees, "\"", "\""));
}

}  // namespace

// Makes the index of one tree.
class IndexMaker {
 public:
  IndexMaker(Environment& environment, const IndexRequest& request)
      : environment_(environment),
        request_(request),
        tree_(request.database.empty() ? environment.meta().main
                                       : find_tree(environment, request.database)) {}

  std::vector<std::byte> make() {
    std::uint64_t entries = 0;
    refuse_flags(environment_, tree_);
    summary_ = walk(environment_, tree_, [&](const Page& page, std::uint16_t flags) {
      collect(environment_, page, flags, entries, clues_);
      entries += page.count;
      leaves_.push_back({page.number, entries});
    });
    const Layout layout = classify();
    samples_ = layout == Layout::kShardmill ? summary_.entries - 1
               : layout == Layout::kText    ? text_samples()
                                            : summary_.entries;
    if (layout == Layout::kMeta) check_listed();
    return flat(layout);
  }

 private:
  Layout classify() {
    refuse_trees(environment_, clues_.trees);
    if (request_.layout) return forced();
    if (clues_.has_description) {
      check_description(environment_, clues_, summary_);
      return Layout::kShardmill;
    }
    // The snapshots before a shard's last transaction: no entry at all, or no description yet.
    if (summary_.entries == 0) refuse_empty();
    if (summary_.numbered > 0 && clues_.first_is_record) {
      environment_.damaged({}, "the entry \"" + std::string(kDescriptionKey) +
                                   "\" is missing: an older snapshot of a shard, or incomplete");
    }
    if (is_text()) return Layout::kText;
    if (clues_.first_is_datum) return Layout::kCaffe;
    if (clues_.first_is_pickled) {
      throw Error(
          ErrorCode::kUnsupported, environment_.path(), {},
          "its values are pickled Python objects: reading them would run whatever code they "
          "hold",
          "write images and labels themselves from the program that can read them, or take "
          "the values as bytes with --as plain");
    }
    if (listed_images(environment_.path())) return Layout::kMeta;
    const bool images = clues_.field != kFields[0];
    return clues_.first_has_lsun_key && images ? Layout::kLsun : Layout::kPlain;
  }

  Layout forced() const {
    if (summary_.entries == 0) refuse_empty();
    if (*request_.layout == Layout::kText && !is_text()) {
      throw Error(ErrorCode::kInvalidArgument, environment_.path(), {},
                  "holds no num-samples with image-000000001 or label-000000001", "leave out --as");
    }
    return *request_.layout;
  }

  [[noreturn]] void refuse_empty() const {
    environment_.damaged({}, "the environment holds no entries: empty, or an older snapshot of it");
  }

  bool is_text() const {
    return !clues_.count.empty() && clues_.images.count + clues_.labels.count > 0;
  }

  // Without images there are only labels, as MMOCR writes them.
  std::uint64_t text_samples() {
    const std::string_view word = clues_.images.all > 0 ? "image" : "label";
    const Run& run = clues_.images.all > 0 ? clues_.images : clues_.labels;
    std::uint64_t stated = 0;
    const char* end = clues_.count.data() + clues_.count.size();
    const auto parsed = std::from_chars(clues_.count.data(), end, stated);
    if (parsed.ec != std::errc() || parsed.ptr != end) {
      environment_.damaged("entry \"num-samples\"",
                           "not a number: \"" + escape(clues_.count) + '"');
    }
    if (stated > run.count) {
      throw Error(
          ErrorCode::kDataLoss, environment_.path(),
          "entry \"" + text_key(word, std::min<std::uint64_t>(run.count + 1, 999999999)) + '"',
          "is missing, num-samples says " + std::to_string(stated),
          "copy or make the file again, or take its entries one by one with --as plain");
    }
    if (run.all > stated) {
      warn("num-samples says " + std::to_string(stated) + ", but there are " +
           std::to_string(run.all) + " entries " + std::string(word) +
           "-…: those behind it are left out");
    }
    if (clues_.images.all > 0 && clues_.labels.count < stated) {
      warn("entry \"" + text_key("label", clues_.labels.count + 1) +
           "\" is missing: some samples have no txt");
    }
    const std::uint64_t others = summary_.entries - clues_.images.all - clues_.labels.all - 1;
    if (others > 0) {
      warn(std::to_string(others) + " entries are neither image-… nor label-… and are left out");
    }
    return stated;
  }

  void check_listed() {
    const std::uint64_t listed = listed_images(environment_.path()).value_or(summary_.entries);
    if (listed > summary_.entries) {
      environment_.damaged({}, "meta_info.txt lists " + std::to_string(listed) +
                                   " images, the environment holds " +
                                   std::to_string(summary_.entries));
    }
    if (listed < summary_.entries) {
      warn("meta_info.txt lists " + std::to_string(listed) + " images, the environment holds " +
           std::to_string(summary_.entries));
    }
  }

  void warn(const std::string& text) { warnings_ += text + '\n'; }

  std::vector<std::byte> flat(Layout layout) {
    const Meta& meta = environment_.meta();
    const auto field = std::find(kFields.begin(), kFields.end(), clues_.field) - kFields.begin();
    const bool images = clues_.images.all > 0;
    const bool labels = clues_.labels.all > 0;
    const IndexHeader header{kIndexMagic,
                             environment_.file_size(),
                             meta.page_size,
                             meta.transaction,
                             meta.main.root,
                             tree_.root,
                             summary_.entries,
                             static_cast<std::uint64_t>(layout),
                             samples_,
                             static_cast<std::uint64_t>(field),
                             images ? clues_.images.first : summary_.entries,
                             labels ? clues_.labels.first : summary_.entries,
                             leaves_.size()};
    const std::size_t leaf_bytes = leaves_.size() * sizeof(Index::Leaf);
    std::vector<std::byte> bytes(sizeof header + leaf_bytes + warnings_.size());
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, leaves_.data(), leaf_bytes);
    if (!warnings_.empty()) {
      std::memcpy(bytes.data() + sizeof header + leaf_bytes, warnings_.data(), warnings_.size());
    }
    return bytes;
  }

  Environment& environment_;
  const IndexRequest& request_;
  const Tree tree_;
  std::vector<Index::Leaf> leaves_;
  Clues clues_;
  WalkSummary summary_;
  std::uint64_t samples_ = 0;
  std::string warnings_;
};

std::vector<std::byte> make_index(Environment& environment, const IndexRequest& request) {
  return IndexMaker(environment, request).make();
}

Index::Index(std::span<const std::byte> bytes, const Environment& environment) {
  const auto refuse = [&](const std::string& cause) {
    throw Error(ErrorCode::kDataLoss, environment.path(), "index", cause, "make the index again");
  };
  constexpr const char* kNoIndex = "not an index of an LMDB environment";
  SHARDMILL_CHECK(reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(Leaf) == 0);
  IndexHeader header{};
  if (bytes.size() < sizeof header) refuse(kNoIndex);
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::size_t rest = bytes.size() - sizeof header;
  if (header.magic != kIndexMagic || header.layout >= kLayouts || header.field >= kFields.size() ||
      header.leaves > rest / sizeof(Leaf) || header.leaves < 1 || header.samples > header.entries) {
    refuse(kNoIndex);
  }
  const Meta& meta = environment.meta();
  const bool main = header.root == header.main_root;
  if (header.file_size != environment.file_size() || header.page_size != meta.page_size ||
      header.transaction != meta.transaction || header.main_root != meta.main.root ||
      (main && header.entries != meta.main.entries)) {
    refuse("was made for another file, or the file has been changed since");
  }
  layout_ = static_cast<Layout>(header.layout);
  samples_ = header.samples;
  field_ = kFields[header.field];
  first_image_ = header.first_image;
  first_label_ = header.first_label;
  leaves_ = {reinterpret_cast<const Leaf*>(bytes.data() + sizeof header), header.leaves};
  warnings_ = as_text(bytes.subspan(sizeof header + header.leaves * sizeof(Leaf)));
  if (leaves_.back().end != header.entries) refuse(kNoIndex);
  leaves_per_entry_ = static_cast<double>(header.leaves) / static_cast<double>(header.entries);
}

std::vector<std::string> Index::warnings() const {
  std::vector<std::string> out;
  for (std::string_view rest = warnings_; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size() - 1);
    out.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  return out;
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
