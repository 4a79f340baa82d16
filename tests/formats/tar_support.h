// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/support.h"

namespace shardmill::test {

namespace fs = std::filesystem;

inline const Format& tar() { return find_format("tar"); }

using TarContents = std::map<std::string, std::map<std::string, std::string>>;

// Reads all samples as key -> field -> bytes; fails on keys that come twice.
inline TarContents contents(const fs::path& path, Access access = Access::kMap) {
  OpenShard shard(tar(), path, access);
  TarContents all;
  SampleView view;
  for (std::uint64_t n = 0; n < shard.reader().size(); ++n) {
    shard.reader().read(n, view);
    auto& sample = all[std::string(view.key)];
    REQUIRE(sample.empty());
    for (const FieldView& field : view.fields)
      sample[std::string(field.name)] = as_text(field.bytes);
  }
  return all;
}

using SampleList = std::vector<std::pair<std::string, std::map<std::string, std::string>>>;

inline void keep(const SampleView& view, SampleList& list) {
  auto& fields =
      list.emplace_back(std::string(view.key), std::map<std::string, std::string>()).second;
  for (const FieldView& field : view.fields) fields[std::string(field.name)] = as_text(field.bytes);
}

inline SampleList contents_in_order(Reader& reader) {
  SampleList list;
  SampleView view;
  for (std::uint64_t n = 0; n < reader.size(); ++n) {
    reader.read(n, view);
    keep(view, list);
  }
  return list;
}

// Reads a file, also a compressed one, from front to back.
inline SampleList streamed(const fs::path& path, std::vector<std::string>* warnings = nullptr) {
  const auto source = open_source(path);
  const auto stream = tar().stream(*source);
  SampleList list;
  SampleView view;
  while (stream->next(view)) keep(view, list);
  if (warnings != nullptr) *warnings = stream->info().warnings;
  return list;
}

}  // namespace shardmill::test
