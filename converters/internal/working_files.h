// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace shardmill::internal {

/// What a conversion keeps in its destination until the manifest is there.

inline constexpr const char* kPlanName = ".shardmill-plan.json";
inline constexpr const char* kPlanDataName = ".shardmill-plan.data";
inline constexpr const char* kLockName = ".shardmill-lock";
inline constexpr std::string_view kRankLockPrefix = ".shardmill-lock-rank-";
inline constexpr const char* kJournalPrefix = ".shardmill-journal-";

/// Returns the name of the journal of a rank.
inline std::string journal_name(int rank) { return kJournalPrefix + std::to_string(rank); }

/// True for the names above.
inline bool is_working_file(std::string_view name) {
  return name.starts_with(".shardmill-plan.") || name.starts_with(kLockName) ||
         name.starts_with(kJournalPrefix);
}

}  // namespace shardmill::internal
