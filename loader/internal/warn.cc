// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/warn.h"

#include <cstdio>
#include <mutex>
#include <set>

namespace shardmill::internal {

void warn(const std::string& text) {
  std::fprintf(stderr, "shardmill: warning: %s\n", text.c_str());
}

void warn_once(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> printed;
  const std::lock_guard lock(mutex);
  if (printed.insert(text).second) warn(text);
}

}  // namespace shardmill::internal
