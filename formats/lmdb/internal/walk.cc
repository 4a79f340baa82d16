// SPDX-License-Identifier: Apache-2.0
#include "formats/lmdb/internal/walk.h"

#include <cstring>
#include <vector>

namespace shardmill::lmdb {

namespace {

constexpr std::uint16_t kMaxDepth = 32;
constexpr std::uint64_t kWindowBytes = 256 << 10;  // fits the processor's cache

class TreeWalk {
 public:
  TreeWalk(Environment& environment, const Tree& tree, const LeafVisitor& visit)
      : environment_(environment),
        tree_(tree),
        ordered_((tree.flags & (kTreeReverseKey | kTreeIntegerKey)) == 0),
        visit_(visit),
        blocks_(environment.path(), Access::kRead) {
    format_key(0, expected_);
  }

  ~TreeWalk() { environment_.set_window(0, {}); }
  TreeWalk(const TreeWalk&) = delete;
  TreeWalk& operator=(const TreeWalk&) = delete;

  WalkSummary run() {
    if (tree_.depth > kMaxDepth) environment_.damaged(kTree, "absurd depth of the tree");
    if ((tree_.root == kNoPage) != (tree_.entries == 0) ||
        (tree_.depth == 0) != (tree_.entries == 0)) {
      environment_.damaged(kTree, "number of entries and root page contradict each other");
    }
    if (tree_.entries > 0) descend(tree_.root, 1);
    if (summary_.entries != tree_.entries) {
      environment_.damaged(kTree, "has " + std::to_string(summary_.entries) +
                                      " entries, its meta page says " +
                                      std::to_string(tree_.entries));
    }
    return summary_;
  }

 private:
  static constexpr const char* kTree = "tree";

  void descend(std::uint64_t number, std::uint16_t level) {
    // Every page is visited once; more visits than pages mean that the tree bites its tail.
    if (++pages_ > environment_.file_size() / environment_.meta().page_size) {
      environment_.damaged(kTree, "has more pages than the file");
    }
    if (level == tree_.depth) return leaf(environment_.page(number, kLeafPage));
    const Page branch = environment_.page(number, kBranchPage);
    std::vector<std::uint64_t> children(branch.count);
    for (std::uint32_t i = 0; i < branch.count; ++i) children[i] = environment_.child(branch, i);
    environment_.release();
    if (level + 1 == tree_.depth) return leaves(children);
    for (const std::uint64_t child : children) {
      descend(child, static_cast<std::uint16_t>(level + 1));
    }
  }

  // Visits the leaves of one branch. Neighbours are read in blocks: for pages that are looked at
  // once this takes half the time of mapping them.
  void leaves(const std::vector<std::uint64_t>& pages) {
    const std::uint64_t size = environment_.meta().page_size;
    const std::uint64_t in_file = environment_.file_size() / size;
    for_each_run(pages, in_file, [&](std::size_t begin, std::size_t end) {
      if (pages[begin] >= in_file) return;
      environment_.will_need({pages[begin] * size, (end - begin) * size});
    });
    for_each_run(pages, kWindowBytes / size, [&](std::size_t begin, std::size_t end) {
      if (end - begin > 1 && pages[end - 1] < in_file) {
        blocks_.release();
        environment_.set_window(pages[begin],
                                blocks_.bytes(pages[begin] * size, (end - begin) * size));
      }
      for (std::size_t i = begin; i < end; ++i) descend(pages[i], tree_.depth);
      environment_.set_window(0, {});
    });
  }

  // Calls action(begin, end) for the longest runs of pages that follow each other in the file.
  template <typename Action>
  static void for_each_run(const std::vector<std::uint64_t>& pages, std::uint64_t longest,
                           Action&& action) {
    for (std::size_t begin = 0; begin < pages.size();) {
      std::size_t end = begin + 1;
      while (end < pages.size() && pages[end] == pages[end - 1] + 1 && end - begin < longest) ++end;
      action(begin, end);
      begin = end;
    }
  }

  void leaf(const Page& page) {
    const std::string place = "page " + std::to_string(page.number);
    if (page.count == 0) environment_.damaged(place, "empty leaf page");
    std::string_view previous = last_;
    std::uint16_t flags = 0;
    for (std::uint32_t i = 0; i < page.count; ++i) {
      const Node node = environment_.node(page, i);
      if ((node.flags & kNodeOverflow) != 0) environment_.extent(page, node);
      // Keys that count up by one ascend; only others have to be compared with each other.
      if (summary_.numbered == summary_.entries && is_expected(node.key)) {
        ++summary_.numbered;
        advance();
      } else if (ordered_ && summary_.entries > 0 && node.key <= previous) {
        environment_.damaged(place, "keys are out of order");
      }
      previous = node.key;
      flags |= node.flags;
      ++summary_.entries;
    }
    ++summary_.leaves;
    visit_(page, flags);
    last_.assign(previous);
    environment_.release();
  }

  bool is_expected(std::string_view key) const {
    return key.size() == kKeyDigits && std::memcmp(key.data(), expected_, kKeyDigits) == 0;
  }

  void advance() {
    for (std::size_t i = kKeyDigits; i-- > 0;) {
      if (++expected_[i] <= '9') return;
      expected_[i] = '0';
    }
  }

  Environment& environment_;
  const Tree& tree_;
  const bool ordered_;
  const LeafVisitor& visit_;
  shardmill::internal::InputFile blocks_;
  WalkSummary summary_;
  std::uint64_t pages_ = 0;
  std::string last_;  // last key of the page before
  char expected_[kKeyDigits];
};

}  // namespace

void format_key(std::uint64_t number, char* out) noexcept {
  for (std::size_t i = kKeyDigits; i-- > 0; number /= 10) {
    out[i] = static_cast<char>('0' + number % 10);
  }
}

bool is_key_of(std::uint64_t number, std::string_view key) noexcept {
  if (key.size() != kKeyDigits) return false;
  std::uint64_t value = 0;
  bool digits = true;
  for (const char c : key) {
    const auto digit = static_cast<unsigned char>(c - '0');
    digits &= digit < 10;
    value = value * 10 + digit;
  }
  return digits && value == number;
}

WalkSummary walk(Environment& environment, const Tree& tree, const LeafVisitor& visit) {
  return TreeWalk(environment, tree, visit).run();
}

}  // namespace shardmill::lmdb
