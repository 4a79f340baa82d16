// SPDX-License-Identifier: Apache-2.0
// Any bytes as the index of a good archive: an error or the right bytes.
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "tests/formats/tar_archive.h"
#include "tests/fuzz/fuzz.h"

namespace shardmill::fuzz {

namespace {

using namespace shardmill::test;

constexpr std::uint64_t kMostSamples = 100;

const std::string& archive() {
  static const std::string bytes = tar_member("a.cls", "1") + tar_member("a.jpg", "image") +
                                   tar_member("b.jpg", std::string(700, 'b')) + kTarEnd;
  return bytes;
}

const MemoryPath& archive_file() {
  static const MemoryPath file(archive());
  return file;
}

}  // namespace

std::vector<std::string> seeds() {
  const auto index = find_format("tar").build_index(archive_file().path(), Access::kMap);
  return {std::string(reinterpret_cast<const char*>(index.data()), index.size())};
}

bool run(const std::string& input) {
  std::vector<std::uint64_t> aligned(input.size() / 8 + 1);
  if (!input.empty()) std::memcpy(aligned.data(), input.data(), input.size());
  const Bytes index = std::as_bytes(std::span<const std::uint64_t>(aligned)).first(input.size());
  bool valid = true;
  for (const Access access : {Access::kMap, Access::kRead}) {
    try {
      const auto reader = find_format("tar").open(archive_file().path(), index, access);
      SampleView view;
      for (std::uint64_t n = 0; n < std::min(reader->size(), kMostSamples); ++n) {
        reader->will_need(n);
        reader->read(n, view);
        for (const FieldView& field : view.fields) {
          if (field.bytes.size() > archive().size()) fail("more bytes than the archive has");
          volatile unsigned sum = 0;
          for (const std::byte b : field.bytes) sum = sum + static_cast<unsigned>(b);
        }
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kDataLoss) fail(error.what());
      valid = false;
    }
  }
  return valid;
}

void mend(std::string& input, std::uint64_t random) {
  // The size in the head must fit, or nothing else is looked at.
  if (random % 4 == 0 || input.size() < 24) return;
  const std::uint64_t size = input.size();
  std::memcpy(input.data() + 8, &size, 8);
}

}  // namespace shardmill::fuzz
