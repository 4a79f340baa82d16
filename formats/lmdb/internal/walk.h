// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "formats/lmdb/internal/environment.h"

namespace shardmill::lmdb {

/// Length of a key of shardmill's layout: a number in decimal digits, zeros in front.
inline constexpr std::size_t kKeyDigits = 12;

/// Writes `number` as the kKeyDigits characters of a key. REQUIRES: number < 10^12.
void format_key(std::uint64_t number, char* out) noexcept;

/// True if `key` is `number` in that form.
bool is_key_of(std::uint64_t number, std::string_view key) noexcept;

/// What a walk found out about the keys on its way.
struct WalkSummary {
  std::uint64_t entries = 0;
  std::uint64_t leaves = 0;
  std::uint64_t numbered = 0;  ///< How many of the first keys are 0, 1, 2 … in shardmill's form.
};

/// Called for a leaf page and all flags that its nodes have. May not call release().
using LeafVisitor = std::function<void(const Page& page, std::uint16_t node_flags)>;

/// Visits all leaf pages of `tree` in key order, each with all its nodes checked: values lie
/// inside the file, keys ascend within and across pages (where the tree's flags give it the
/// usual order), and the number of entries is the stated one. Throws kDataLoss otherwise.
/// Ends the validity of all that the environment has lent.
WalkSummary walk(Environment& environment, const Tree& tree, const LeafVisitor& visit);

}  // namespace shardmill::lmdb
