// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/lmdb/internal/environment.h"
#include "formats/lmdb/internal/foreign.h"

namespace shardmill::lmdb {

/// Where an entry stands.
struct Position {
  std::uint64_t page = 0;
  std::uint32_t node = 0;
};

/// What make_index() is asked for.
struct IndexRequest {
  std::string database;          ///< Name of a sub-database; empty: the unnamed one.
  std::optional<Layout> layout;  ///< Instead of the one that the entries suggest.
};

/// Walks the whole tree once, checks it, and returns the index as flat bytes: a header, for each
/// leaf page its number and how many entries end with it, and warnings.
std::vector<std::byte> make_index(Environment& environment, const IndexRequest& request);

/// The index of one environment: views the bytes that make_index() returned. Any thread.
class Index {
 public:
  /// Throws kDataLoss unless `bytes` are an index that was made for `environment` as it is now.
  Index(std::span<const std::byte> bytes, const Environment& environment);

  Layout layout() const noexcept { return layout_; }
  std::uint64_t samples() const noexcept { return samples_; }
  std::uint64_t entries() const noexcept { return leaves_.back().end; }
  /// The field of values that do not say what they are.
  std::string_view field() const noexcept { return field_; }
  /// kText: number of the entry with the first image and the first label; entries() if none.
  std::uint64_t first_image() const noexcept { return first_image_; }
  std::uint64_t first_label() const noexcept { return first_label_; }
  /// What was odd, a sentence each.
  std::vector<std::string> warnings() const;

  /// Finds entry `n`; false if the index contradicts itself. REQUIRES: n < entries().
  bool find(std::uint64_t n, Position& position) const noexcept;

 private:
  struct Leaf {
    std::uint64_t page;
    std::uint64_t end;  // entries up to and including this page
  };
  friend class IndexMaker;

  Layout layout_ = Layout::kShardmill;
  std::uint64_t samples_ = 0;
  std::string_view field_;
  std::uint64_t first_image_ = 0;
  std::uint64_t first_label_ = 0;
  std::span<const Leaf> leaves_;
  std::string_view warnings_;
  double leaves_per_entry_ = 0;
};

}  // namespace shardmill::lmdb
