// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/warning_counts.h"

#include <shardmill/formats/error.h>

#include <algorithm>

namespace shardmill::internal {

void WarningCounts::note(std::string_view kind, std::string_view name) {
  auto at = std::find_if(entries_.begin(), entries_.end(),
                         [kind](const Entry& entry) { return entry.kind == kind; });
  if (at == entries_.end()) {
    entries_.push_back({std::string(kind), std::string(name), 0});
    at = entries_.end() - 1;
  }
  ++at->count;
}

std::vector<std::string> WarningCounts::lines() const {
  std::vector<std::string> lines;
  for (const Entry& entry : entries_) {
    lines.push_back(std::to_string(entry.count) + " " + entry.kind + " (first: \"" +
                    escape(entry.first) + "\")");
  }
  return lines;
}

}  // namespace shardmill::internal
