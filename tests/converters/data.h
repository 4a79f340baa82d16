// SPDX-License-Identifier: Apache-2.0
// Small sources for conversions, and how to look at what came out.
#pragma once

#include <shardmill/converters/convert.h>
#include <shardmill/converters/verify.h>
#include <shardmill/formats/error.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/support/support.h"

namespace shardmill::test {

/// Bytes that look random, the same for the same seed; tests/data/v1 was made of them.
inline std::string noise(std::size_t size, std::uint64_t seed) {
  std::string text(size, '\0');
  std::uint64_t state = seed * 0x9E3779B97F4A7C15 + 1;
  for (char& c : text) {
    state = state * 6364136223846793005 + 1442695040888963407;
    c = static_cast<char>(state >> 56);
  }
  return text;
}

/// Makes a folder of `classes` class directories with `each` files called nNN.jpg, whose bytes are
/// noise of 100 to 1,100 bytes.
inline void make_classes(const std::filesystem::path& folder, int classes, int each) {
  for (int c = 0; c < classes; ++c) {
    for (int i = 0; i < each; ++i) {
      const auto seed = static_cast<std::uint64_t>(c * each + i);
      const std::string directory(1, static_cast<char>('a' + c));
      const std::string name = (i < 10 ? "n0" : "n") + std::to_string(i) + ".jpg";
      write_text(folder / directory / name, noise(100 + seed * 37 % 1000, seed));
    }
  }
}

/// Returns all files below `folder` by relative path, hidden ones too, with their bytes; "DIR" for
/// directories.
inline std::map<std::string, std::string> tree(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    files[entry.path().lexically_relative(folder).string()] =
        entry.is_directory() ? "DIR" : read_text(entry.path());
  }
  return files;
}

/// True if a conversion that did not end left only what a resumed one goes on with: its plan, its
/// journal and whole shards; no manifest, nothing half-written, no lock.
inline bool only_resumable(const std::filesystem::path& folder) {
  for (const auto& [name, content] : tree(folder)) {
    const bool working =
        name.starts_with(".shardmill-plan.") || name.starts_with(".shardmill-journal-");
    if (!working && (name == "manifest.json" || name.find("partial") != std::string::npos ||
                     name.starts_with(".shardmill-"))) {
      return false;
    }
  }
  return std::filesystem::exists(folder / ".shardmill-plan.json");
}

/// Returns the keys of a dataset in its order.
inline std::vector<std::string> keys_of(const std::string& spec) {
  DatasetReader reader(Dataset::open(spec));
  std::vector<std::string> keys;
  SampleView sample;
  for (std::uint64_t n = 0; n < reader.size(); ++n) {
    reader.read(n, sample);
    keys.emplace_back(sample.key);
  }
  return keys;
}

/// Options that convert `source` to `format` in `destination`, in this process.
inline ConvertOptions options_for(const std::filesystem::path& source,
                                  const std::filesystem::path& destination,
                                  const std::string& format) {
  ConvertOptions options;
  options.sources = {source.string()};
  options.destination = destination;
  options.format = format;
  options.jobs = 1;
  return options;
}

/// Runs `work` and returns the error it throws; code kInternal and no cause if it throws none.
template <class Work>
ErrorInfo error_of(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return error.info();
  }
  return {};
}

}  // namespace shardmill::test
