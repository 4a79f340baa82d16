// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/lmdb/internal/environment.h"

namespace shardmill::lmdb {

/// What the entries of an environment mean.
enum class Layout : std::uint32_t {
  kShardmill = 0,  ///< Numbered MessagePack maps and `__shardmill__`.
  kPlain = 1,      ///< Any names with any bytes.
};

/// Where an entry stands.
struct Position {
  std::uint64_t page = 0;
  std::uint32_t node = 0;
};

/// Walks the whole tree once, checks it, and returns the index as flat bytes: a header, and for
/// each leaf page its number and how many entries end with it.
std::vector<std::byte> make_index(Environment& environment);

/// The index of one environment: views the bytes that make_index() returned. Any thread.
class Index {
 public:
  /// Throws kDataLoss unless `bytes` are an index that was made for `environment` as it is now.
  Index(std::span<const std::byte> bytes, const Environment& environment);

  Layout layout() const noexcept { return layout_; }
  std::uint64_t samples() const noexcept { return samples_; }

  /// Finds entry `n`; false if the index contradicts itself. REQUIRES: n < samples().
  bool find(std::uint64_t n, Position& position) const noexcept;

 private:
  struct Leaf {
    std::uint64_t page;
    std::uint64_t end;  // entries up to and including this page
  };
  friend std::vector<std::byte> make_index(Environment& environment);

  Layout layout_ = Layout::kShardmill;
  std::uint64_t samples_ = 0;
  std::span<const Leaf> leaves_;
  double leaves_per_entry_ = 0;
};

}  // namespace shardmill::lmdb
