// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/shard_path.h"

namespace shardmill::internal {

namespace fs = std::filesystem;

ShardPath split_shard_path(const fs::path& path) {
  const std::string& text = path.native();
  std::error_code error;
  // Most paths have no mark: those cost no look at the disk.
  if (text.find('#') == std::string::npos || fs::exists(path, error)) return {path, {}, {}};
  ShardPath parts;
  std::string rest = text;
  if (const std::size_t mark = rest.rfind(kLayoutMark); mark != std::string::npos) {
    parts.layout = rest.substr(mark + kLayoutMark.size());
    rest.resize(mark);
    parts.file = rest;
    if (fs::exists(parts.file, error)) return parts;
  }
  for (std::size_t mark = rest.find('#'); mark != std::string::npos;
       mark = rest.find('#', mark + 1)) {
    parts.file = rest.substr(0, mark);
    parts.inner = rest.substr(mark + 1);
    if (fs::exists(parts.file, error)) return parts;
  }
  return {path, {}, {}};
}

fs::path join_shard_path(const ShardPath& parts) {
  std::string text = parts.file.native();
  if (!parts.inner.empty()) text += '#' + parts.inner;
  if (!parts.layout.empty()) text += std::string(kLayoutMark) + parts.layout;
  return text;
}

}  // namespace shardmill::internal
