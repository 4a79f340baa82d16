// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/rebuild.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "converters/internal/origin.h"

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

// The directory of a dataset, or of one of its shards, that a conversion has written.
fs::path destination_of(const std::string& spec) {
  std::error_code error;
  fs::path directory = fs::absolute(spec).lexically_normal();
  if (!directory.has_filename()) directory = directory.parent_path();
  for (int up = 0; up < 3; ++up) {
    if (fs::exists(directory / kOriginName, error)) return directory;
    if (!directory.has_relative_path()) break;
    directory = directory.parent_path();
  }
  return {};
}

}  // namespace

std::string rebuild_commands(const std::string& spec, const std::vector<Damage>& damaged) {
  if (damaged.empty()) return {};
  const fs::path directory = destination_of(spec);
  if (directory.empty()) return {};
  const auto origin = load_origin(directory);
  if (!origin) return {};
  const auto format = origin->options.find("--to");
  const auto sources = origin->options.find("SOURCE");
  const bool folder = format != origin->options.end() && format->second == "folder";
  if (sources == origin->options.end()) return {};
  const std::vector<std::string> specs = unpack_texts(sources->second);
  if (std::count(specs.begin(), specs.end(), "-") > 0) return {};  // it came once
  std::string command = rebuild_command(directory, *origin);
  if (folder) {  // all of it is one shard
    return command.substr(0, command.rfind(' ')) + " --force";
  }
  std::set<std::string> files;
  std::error_code error;
  for (const Damage& damage : damaged) {
    const fs::path file = fs::absolute(damage.shard).lexically_normal();
    const bool inside =
        std::any_of(origin->parts.begin(), origin->parts.end(), [&](const std::string& part) {
          return file.parent_path() == (part.empty() ? directory : directory / part);
        });
    const bool is_part = fs::exists(file / "manifest.json", error);
    if (inside && !is_part && fs::exists(file, error)) files.insert(file.string());
  }
  std::string remove;
  for (const std::string& file : files) remove += " " + quoted_word(file);
  return (remove.empty() ? "" : "rm -r" + remove + " && ") + command;
}

}  // namespace shardmill::internal
