// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/key_set.h"

#include <xxhash.h>

namespace shardmill::internal {

namespace {

std::uint64_t hash_of(std::string_view key) noexcept {
  const std::uint64_t hash = XXH3_64bits(key.data(), key.size());
  return hash == 0 ? 1 : hash;
}

// Returns where `hash` stands or belongs. REQUIRES: a free place.
std::size_t place_of(const std::vector<std::uint64_t>& table, std::uint64_t hash) noexcept {
  const std::size_t mask = table.size() - 1;
  std::size_t at = hash & mask;
  while (table[at] != 0 && table[at] != hash) at = (at + 1) & mask;
  return at;
}

}  // namespace

bool KeySet::insert(std::string_view key) {
  if (used_ * 4 >= table_.size() * 3) grow();
  const std::uint64_t hash = hash_of(key);
  std::uint64_t& place = table_[place_of(table_, hash)];
  if (place == hash) return false;
  place = hash;
  ++used_;
  return true;
}

void KeySet::grow() {
  std::vector<std::uint64_t> larger(table_.empty() ? 64 : table_.size() * 2);
  for (const std::uint64_t hash : table_) {
    if (hash != 0) larger[place_of(larger, hash)] = hash;
  }
  table_.swap(larger);
}

}  // namespace shardmill::internal
