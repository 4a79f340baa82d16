// SPDX-License-Identifier: Apache-2.0
// Any bytes as the index of a good folder: an error or files of that folder.
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/fuzz.h"

namespace shardmill::fuzz {

namespace {

constexpr std::uint64_t kMostSamples = 100;

// A folder of two classes, removed at the end.
struct Folder {
  std::filesystem::path path = "/tmp/shardmill-fuzz-" + std::to_string(getpid());
  Folder() {
    for (const char* name : {"a/1.jpg", "a/1.json", "b/2.jpg"}) {
      std::filesystem::create_directories((path / name).parent_path());
      std::ofstream(path / name) << name;
    }
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

const std::filesystem::path& folder() {
  static const Folder made;
  return made.path;
}

}  // namespace

std::vector<std::string> seeds() {
  const auto index = find_format("folder").build_index(folder(), Access::kMap);
  return {std::string(reinterpret_cast<const char*>(index.data()), index.size())};
}

bool run(const std::string& input) {
  std::vector<std::uint64_t> aligned(input.size() / 8 + 1);
  if (!input.empty()) std::memcpy(aligned.data(), input.data(), input.size());
  const Bytes index = std::as_bytes(std::span<const std::uint64_t>(aligned)).first(input.size());
  try {
    const auto reader = find_format("folder").open(folder(), index, Access::kMap);
    SampleView view;
    for (std::uint64_t n = 0; n < std::min(reader->size(), kMostSamples); ++n) {
      reader->read(n, view);
      reader->peek(n, view);
    }
    return true;
  } catch (const Error& error) {
    // Names that are wrong lead to files that are not there.
    const bool told = error.code() == ErrorCode::kDataLoss ||
                      error.code() == ErrorCode::kNotFound || error.code() == ErrorCode::kIo;
    if (!told) fail(error.what());
    return false;
  }
}

void mend(std::string& input, std::uint64_t random) {
  if (random % 4 == 0 || input.size() < 24) return;
  const std::uint64_t size = input.size();
  std::memcpy(input.data() + 8, &size, 8);
}

}  // namespace shardmill::fuzz
