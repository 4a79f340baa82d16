// SPDX-License-Identifier: Apache-2.0
// Trees of every size and shape that our writer makes, as liblmdb sees them: reading, searching,
// statistics, its compacting copy (which walks every page), and further writing.
#include <functional>

#include "formats/lmdb/internal/tree_writer.h"
#include "formats/lmdb/internal/walk.h"
#include "tests/formats/lmdb_support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

Entries numbered(std::size_t count, const std::function<std::size_t(std::size_t)>& size) {
  Entries entries;
  for (std::size_t i = 0; i < count; ++i) {
    char key[lmdb::kKeyDigits];
    lmdb::format_key(i, key);
    std::string value(size(i), '\0');
    for (std::size_t k = 0; k < value.size(); ++k) value[k] = static_cast<char>(i * 31 + k);
    entries.emplace_back(std::string(key, sizeof key), std::move(value));
  }
  return entries;
}

void write_tree(const fs::path& path, const Entries& entries, std::size_t piece = 1000) {
  lmdb::TreeWriter writer(path, path.string());
  for (const auto& [key, value] : entries) {
    std::vector<Bytes> pieces;
    for (std::size_t at = 0; at < value.size(); at += piece) {
      pieces.push_back(as_bytes(std::string_view(value).substr(at, piece)));
    }
    writer.add(key, pieces);
  }
  writer.close();
}

struct Environment {
  explicit Environment(const fs::path& path, unsigned flags) {
    must(mdb_env_create(&env));
    must(mdb_env_set_mapsize(env, std::size_t{1} << 30));
    must(mdb_env_open(env, path.c_str(), flags | MDB_NOLOCK | MDB_NOSUBDIR | MDB_NOSYNC, 0644));
  }
  ~Environment() { mdb_env_close(env); }
  MDB_env* env = nullptr;
};

MDB_stat statistics(const fs::path& path) {
  const Environment environment(path, MDB_RDONLY);
  MDB_stat stat{};
  must(mdb_env_stat(environment.env, &stat));
  return stat;
}

void check_tree(const fs::path& folder, const Entries& entries) {
  const fs::path path = folder / "t.mdb";
  write_tree(path, entries);
  CHECK((read_with_liblmdb(path) == entries));
  const MDB_stat stat = statistics(path);
  CHECK(stat.ms_entries == entries.size());
  CHECK(fs::file_size(path) ==
        4096 * (2 + stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages));
  {
    const Environment environment(path, MDB_RDONLY);
    MDB_txn* txn = nullptr;
    MDB_dbi dbi = 0;
    must(mdb_txn_begin(environment.env, nullptr, MDB_RDONLY, &txn));
    must(mdb_dbi_open(txn, nullptr, 0, &dbi));
    for (std::size_t i = 0; i < entries.size(); i += 1 + entries.size() / 100) {
      MDB_val key = value_of(entries[i].first);
      MDB_val value;
      REQUIRE(mdb_get(txn, dbi, &key, &value) == 0);
      CHECK(value.mv_size == entries[i].second.size());
    }
    MDB_val missing = value_of("0000x");
    MDB_val value;
    CHECK(mdb_get(txn, dbi, &missing, &value) == MDB_NOTFOUND);
    mdb_txn_abort(txn);
    // liblmdb's own copy leaves no page out and makes none.
    fs::remove(folder / "copy.mdb");
    must(mdb_env_copy2(environment.env, (folder / "copy.mdb").c_str(), MDB_CP_COMPACT));
  }
  CHECK((read_with_liblmdb(folder / "copy.mdb") == entries));
  CHECK(fs::file_size(folder / "copy.mdb") == fs::file_size(path));
}

}  // namespace

TEST_CASE("lmdb trees of every size are liblmdb's", "[formats][lmdb]") {
  TemporaryFolder folder;
  const auto nothing = [](std::size_t) { return std::size_t{0}; };
  for (const std::size_t count : {0, 1, 2, 3, 180, 181, 182, 183, 185, 400, 5000, 30'000}) {
    INFO(count << " keys");
    check_tree(folder.path(), numbered(count, nothing));
  }
  // Sizes around where values get pages of their own, and where those take one page more.
  const std::size_t edges[] = {0,    1,    2013, 2014, 2015, 2016, 2017, 2018,
                               2019, 2020, 4079, 4080, 4081, 8176, 8177, 100'000};
  check_tree(folder.path(), numbered(600, [&](std::size_t i) { return edges[i % 16]; }));
}

// One leaf in a branch page would stop liblmdb: every number of leaves around a full branch page.
TEST_CASE("lmdb branch pages have two children at least", "[formats][lmdb]") {
  TemporaryFolder folder;
  // Two nodes of 2,000 bytes fill a leaf; about 180 leaves fill a branch page.
  for (std::size_t leaves = 160; leaves < 200; ++leaves) {
    INFO(leaves << " leaves");
    check_tree(folder.path(), numbered(2 * leaves, [](std::size_t) { return std::size_t{1990}; }));
  }
  // Keys of very different length.
  Entries entries;
  for (std::size_t i = 0; i < 3000; ++i) {
    std::string key = "k" + std::to_string(100'000 + i);
    key.resize(1 + (i * 7919) % 511 < key.size() ? key.size() : 1 + (i * 7919) % 511, 'x');
    entries.emplace_back(key, std::string(i % 1500, 'v'));
  }
  check_tree(folder.path(), entries);
}

TEST_CASE("liblmdb writes on in our files", "[formats][lmdb]") {
  TemporaryFolder folder;
  const fs::path path = folder / "t.mdb";
  Entries entries = numbered(3000, [](std::size_t i) { return i * 13 % 6000; });
  write_tree(path, entries);
  {
    const Environment environment(path, 0);
    MDB_txn* txn = nullptr;
    MDB_dbi dbi = 0;
    must(mdb_txn_begin(environment.env, nullptr, 0, &txn));
    must(mdb_dbi_open(txn, nullptr, 0, &dbi));
    for (std::size_t i = 0; i < entries.size(); i += 3) {
      MDB_val key = value_of(entries[i].first);
      must(mdb_del(txn, dbi, &key, nullptr));
      entries[i].first.clear();
    }
    MDB_val key = value_of("zz");
    MDB_val value = value_of("new");
    must(mdb_put(txn, dbi, &key, &value, 0));
    must(mdb_txn_commit(txn));
  }
  std::erase_if(entries, [](const auto& entry) { return entry.first.empty(); });
  entries.emplace_back("zz", "new");
  CHECK((read_with_liblmdb(path) == entries));
}
