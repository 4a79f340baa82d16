// SPDX-License-Identifier: Apache-2.0
// LMDB files of any bytes: by number, mapped and read, described, as every layout.
#include <lmdb.h>
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "tests/fuzz/fuzz.h"

namespace shardmill::fuzz {

namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

const Format& lmdb() { return find_format("lmdb"); }

// Bytes of an environment with these entries, made by liblmdb.
std::string environment(const Entries& entries, const char* name = nullptr) {
  char path[] = "/tmp/shardmill-fuzz-XXXXXX";
  const int fd = mkstemp(path);
  if (fd < 0) fail("no temporary file");
  close(fd);
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;
  MDB_dbi dbi = 0;
  bool good = mdb_env_create(&env) == 0 && mdb_env_set_maxdbs(env, 2) == 0 &&
              mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOSYNC | MDB_NOLOCK, 0600) == 0 &&
              mdb_txn_begin(env, nullptr, 0, &txn) == 0 &&
              mdb_dbi_open(txn, name, name == nullptr ? 0 : MDB_CREATE, &dbi) == 0;
  for (const auto& [key, value] : entries) {
    MDB_val k{key.size(), const_cast<char*>(key.data())};
    MDB_val v{value.size(), const_cast<char*>(value.data())};
    good = good && mdb_put(txn, dbi, &k, &v, 0) == 0;
  }
  good = good && mdb_txn_commit(txn) == 0;
  if (env != nullptr) mdb_env_close(env);
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  unlink(path);
  if (!good) fail("liblmdb cannot make a seed");
  return bytes;
}

// Only these two say "this file": anything else would be a fault of the reader.
void expect(const Error& error) {
  if (error.code() == ErrorCode::kDataLoss || error.code() == ErrorCode::kUnsupported ||
      error.code() == ErrorCode::kInvalidArgument) {
    return;
  }
  fail(error.what());
}

std::optional<std::string> by_number(const std::string& path, Access access) {
  try {
    OpenShard shard(lmdb(), path, access);
    std::string all;
    SampleView view;
    for (std::uint64_t n = 0; n < shard.reader().size(); ++n) {
      shard.reader().will_need(n);
      try {
        shard.reader().read(n, view);
      } catch (const Error& error) {
        expect(error);
        all.append("damaged").append(1, '\0');
        continue;
      }
      all.append(view.key).append(1, '\0');
      for (const FieldView& field : view.fields) {
        all.append(field.name).append(1, '\0').append(as_text(field.bytes)).append(1, '\0');
      }
    }
    return all;
  } catch (const Error& error) {
    expect(error);
    return std::nullopt;
  }
}

}  // namespace

std::vector<std::string> seeds() {
  const std::string datum("\x08\x03\x10\x01\x18\x01\x22\x03\x0A\x14\x1E\x28\x07", 13);
  Entries many;
  for (int i = 0; i < 400; ++i)
    many.emplace_back("k" + std::to_string(1000 + i), std::string(90, 'v'));
  many.emplace_back("large", std::string(9000, 'l'));
  const std::string record(
      "\x82\xA7__key__\xA1k\xA3"
      "cls\xC4\x01"
      "1",
      18);
  return {environment(many), environment({{"00000000_a", datum}, {"00000001_b", datum}}),
          environment({{"image-000000001", "\xFF\xD8\xFF"},
                       {"image-000000002", "x"},
                       {"label-000000001", "one"},
                       {"num-samples", "2"}}),
          environment({{"000000000000", record}, {"__shardmill__", R"({"version":1,"count":1})"}}),
          environment({{"a", "1"}, {"b", "2"}}, "train")};
}

bool run(const std::string& input) {
  const MemoryPath file(input);
  (void)lmdb().recognises(file.path());
  const auto mapped = by_number(file.path(), Access::kMap);
  if (by_number(file.path(), Access::kRead) != mapped) fail("mapped and read bytes differ");
  for (const char* inner : {"#train", "#as=plain", "#as=caffe", "#as=str"}) {
    by_number(file.path() + inner, Access::kMap);
  }
  try {
    (void)lmdb().describe(file.path(), true);
  } catch (const Error& error) {
    expect(error);
  }
  return mapped.has_value();
}

// Most flips hit values, which hold no structure: moves some of them into page headers.
void mend(std::string& input, std::uint64_t random) {
  if (random % 2 == 0 || input.size() < 8192) return;
  const std::size_t page = random / 2 % (input.size() / 4096);
  const std::size_t at = page * 4096 + random / 64 % 200;
  input[at] = static_cast<char>(random >> 32);
}

}  // namespace shardmill::fuzz
