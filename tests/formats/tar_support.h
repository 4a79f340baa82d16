// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>

#include <map>

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

}  // namespace shardmill::test
