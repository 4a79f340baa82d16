// SPDX-License-Identifier: Apache-2.0
// Cut and bent files: an error, the same samples, or the same number of samples with other
// payload bytes; never a crash, a hang or fewer samples. Reading into buffers of exact size lets
// AddressSanitizer see a read past any page or value.
#include <map>

#include "formats/lmdb/writer.h"
#include "tests/formats/lmdb_support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

const Format& format() { return find_format("lmdb"); }

struct Outcomes {
  int errors = 0;
  int same = 0;
  int other_bytes = 0;
  int wrong = 0;  // fewer or more samples, or an exception of another type
};

class Damage {
 public:
  // A shard of several levels, or a plain environment with the same records.
  explicit Damage(bool shard) {
    const auto writer = lmdb::create_writer(folder_ / "s.lmdb");
    std::vector<Sample> samples;
    for (std::uint32_t i = 0; i < 700; ++i) {
      Sample& sample = samples.emplace_back("key" + std::to_string(i));
      sample.add("cls", std::to_string(i % 10));
      sample.add("jpg", random_bytes(i % 14 == 0 ? 5'000 : i % 5 * 60, i));
    }
    write_all(*writer, samples);
    path_ = folder_ / "s.lmdb" / "data.mdb";
    if (!shard) {
      Entries entries = read_with_liblmdb(path_);
      entries.pop_back();
      for (auto& entry : entries) entry.first = "n" + entry.first;
      path_ = folder_ / "plain.mdb";
      // Four transactions: no flipped bit of 3 or 4 makes two numbers that follow each other.
      write_with_liblmdb(path_, entries, MDB_NOSUBDIR, 0, nullptr, 175);
    }
    good_ = read_text(path_);
    expected_ = dump_all(format(), path_);
  }

  const std::string& good() const { return good_; }

  void judge(const std::string& bytes, Outcomes& outcomes) {
    write_text(path_, bytes);
    for (const Access access : {Access::kMap, Access::kRead}) {
      try {
        const std::vector<std::string> found = dump_all(format(), path_, access);
        ++(found == expected_                 ? outcomes.same
           : found.size() == expected_.size() ? outcomes.other_bytes
                                              : outcomes.wrong);
      } catch (const Error& error) {
        const bool expected_code =
            error.code() == ErrorCode::kDataLoss || error.code() == ErrorCode::kUnsupported;
        ++(expected_code ? outcomes.errors : outcomes.wrong);
      }
    }
  }

  // Positions of bytes in the heads of meta, branch and leaf pages, and in the heads of values.
  std::vector<std::size_t> structure() const {
    std::vector<std::size_t> positions;
    std::size_t pages = 1;
    for (std::size_t page = 0; page < good_.size(); page += pages * kPage) {
      const int flags = good_[page + 10];
      const std::size_t head = (flags & 0x08) != 0 ? 152 : (flags & 0x03) != 0 ? 64 : 16;
      for (std::size_t i = 0; i < head; ++i) positions.push_back(page + i);
      // Pages with a value of their own hold nothing but bytes of it behind the first head.
      pages = (flags & 0x04) != 0 ? static_cast<unsigned char>(good_[page + 12]) : 1;
    }
    return positions;
  }

 private:
  static constexpr std::size_t kPage = 4096;
  TemporaryFolder folder_;
  fs::path path_;
  std::string good_;
  std::vector<std::string> expected_;
};

std::string flipped(std::string bytes, std::size_t at, std::size_t bit) {
  bytes[at] = static_cast<char>(static_cast<unsigned char>(bytes[at]) ^ (1u << bit % 8));
  return bytes;
}

}  // namespace

TEST_CASE("lmdb shards cut off anywhere are errors", "[formats][lmdb]") {
  for (const bool shard : {true, false}) {
    Damage damage(shard);
    Outcomes outcomes;
    for (std::size_t k = 0; k < 64; ++k) {
      damage.judge(damage.good().substr(0, damage.good().size() * k / 64), outcomes);
    }
    damage.judge(damage.good().substr(0, damage.good().size() - 1), outcomes);
    CHECK(outcomes.errors + outcomes.same == 130);
    CHECK(outcomes.errors >= 126);  // pages at the end may be free ones
  }
}

TEST_CASE("lmdb shards with bent structure are errors or unharmed", "[formats][lmdb]") {
  for (const bool shard : {true, false}) {
    Damage damage(shard);
    const std::vector<std::size_t> positions = damage.structure();
    std::mt19937 random(7);
    Outcomes outcomes;
    for (int i = 0; i < 600; ++i) {
      damage.judge(flipped(damage.good(), positions[random() % positions.size()], random()),
                   outcomes);
    }
    CHECK(outcomes.wrong == 0);
    CHECK(outcomes.errors > 300);
    CHECK(outcomes.same > 0);
    CHECK(outcomes.errors + outcomes.same + outcomes.other_bytes == 1200);
    if (shard) CHECK(outcomes.other_bytes == 0);
  }
}

TEST_CASE("lmdb meta pages may be bent in any bit", "[formats][lmdb]") {
  Damage damage(true);
  Outcomes outcomes;
  for (const std::size_t page : {0, 4096}) {
    for (std::size_t i = 0; i < 152; ++i) {
      damage.judge(flipped(damage.good(), page + i, i * 5 % 8), outcomes);
    }
  }
  CHECK(outcomes.wrong == 0);
  CHECK(outcomes.other_bytes == 0);
}

TEST_CASE("lmdb shards with any bit bent keep their number of samples", "[formats][lmdb]") {
  Damage damage(true);
  std::mt19937 random(11);
  Outcomes outcomes;
  for (int i = 0; i < 400; ++i) {
    damage.judge(flipped(damage.good(), random() % damage.good().size(), random()), outcomes);
  }
  CHECK(outcomes.wrong == 0);
  CHECK(outcomes.other_bytes > 0);
}
