// SPDX-License-Identifier: Apache-2.0
// What every format must do with damaged shards: an error or the right samples, never a crash,
// never fewer samples in silence.
#include <fstream>
#include <optional>

#include "tests/formats/conformance_support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

// What reading a damaged shard gave: the samples and whether the reader warned, or an error.
struct Outcome {
  std::optional<Samples> samples;
  std::uint64_t size = 0;
  bool warned = false;
};

Outcome try_reading(const Format& format, const fs::path& path, Access access) {
  Outcome outcome;
  try {
    OpenShard shard(format, path, access);
    outcome.size = shard.reader().size();
    outcome.warned = !shard.reader().info().warnings.empty();
    outcome.samples = read_all(shard.reader());
  } catch (const Error& error) {
    CHECK(error.code() != ErrorCode::kInternal);
    CHECK_FALSE(error.info().path.empty());
  }
  return outcome;
}

// A shard whose file can be changed at will.
struct Damaged {
  const Format& format;
  TemporaryFolder folder;
  fs::path path = shard_path(folder.path(), format);
  std::vector<Sample> samples = small_samples();
  Samples whole = expected(samples);
  fs::path file;
  std::string bytes;

  explicit Damaged(const Format& f) : format(f) {
    write(format, path, samples);
    file = format.data_file(path);
    if (!file.empty()) bytes = read_text(file);
  }
  // Writes one byte in place: writing the whole file a thousand times would take long.
  void put(std::size_t at, char byte) {
    std::fstream out(file, std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(static_cast<std::streamoff>(at));
    out.put(byte);
    REQUIRE(out.flush());
  }
  Outcome read(const std::string& changed, Access access) {
    write_text(file, changed);
    return try_reading(format, path, access);
  }
};

}  // namespace

TEST_CASE("A shard that is cut off is an error, or warned about", "[formats][conformance]") {
  FOR_EACH_FORMAT(format) {
    Damaged shard(*format);
    if (shard.file.empty()) continue;  // a folder has no file of its own
    std::size_t errors = 0;
    for (std::size_t part = 0; part < 16; ++part) {
      for (const std::size_t less : {0u, 1u, 100u}) {
        const std::size_t cut = shard.bytes.size() * part / 16;
        const std::string changed = shard.bytes.substr(0, cut - std::min<std::size_t>(cut, less));
        for (const Access access : {Access::kMap, Access::kRead}) {
          INFO("cut to " << changed.size() << " of " << shard.bytes.size());
          const Outcome outcome = shard.read(changed, access);
          errors += outcome.samples ? 0 : 1;
          if (!outcome.samples) continue;
          CHECK((outcome.warned || outcome.size == shard.whole.size()));
          for (const auto& [key, fields] : *outcome.samples) {
            REQUIRE(shard.whole.count(key) == 1);
            const Fields& right = shard.whole.at(key);
            // A tar cut between two members of a sample has lost the later one, and warns.
            const bool part =
                std::includes(right.begin(), right.end(), fields.begin(), fields.end());
            CHECK((outcome.warned ? part : fields == right));
          }
        }
      }
    }
    CHECK(errors > 16);
  }
}

TEST_CASE("A flipped byte never costs a sample in silence", "[formats][conformance]") {
  FOR_EACH_FORMAT(format) {
    Damaged shard(*format);
    if (shard.file.empty()) continue;
    const std::size_t step = std::max<std::size_t>(shard.bytes.size() / 1500, 1);
    std::size_t errors = 0;
    for (std::size_t at = 0, turn = 0; at < shard.bytes.size(); at += step, ++turn) {
      constexpr char kFlips[] = {'\x01', '\x10', '\x80', '\xff'};
      INFO("byte " << at << " of " << shard.bytes.size());
      shard.put(at, static_cast<char>(shard.bytes[at] ^ kFlips[turn % 4]));
      const Outcome outcome =
          try_reading(*format, shard.path, turn % 2 == 0 ? Access::kMap : Access::kRead);
      shard.put(at, shard.bytes[at]);
      errors += outcome.samples ? 0 : 1;
      if (!outcome.samples) continue;
      CHECK((outcome.warned || outcome.size == shard.whole.size()));
      std::size_t different = 0;
      for (const auto& [key, fields] : *outcome.samples) {
        const auto at_key = shard.whole.find(key);
        different += at_key == shard.whole.end() || at_key->second != fields ? 1 : 0;
      }
      CHECK(different <= 2);  // a boundary between two values concerns both
    }
    CHECK(errors > 0);
  }
}
