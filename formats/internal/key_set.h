// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace shardmill::internal {

/// Remembers keys by their 64-bit hashes, at most 16 bytes each, to find one that comes twice.
/// Among a million keys, two different ones are taken for equal with a chance of 3 in 10^8.
class KeySet {
 public:
  /// Adds `key`; returns false if it was there already.
  bool insert(std::string_view key);

 private:
  void grow();
  std::vector<std::uint64_t> table_;  // open addressing; 0: free
  std::size_t used_ = 0;
};

}  // namespace shardmill::internal
