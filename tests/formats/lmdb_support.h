// SPDX-License-Identifier: Apache-2.0
// liblmdb as the oracle of tests, and samples for them.
#pragma once

#include <lmdb.h>
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/support.h"

namespace shardmill::test {

namespace fs = std::filesystem;
using Entries = std::vector<std::pair<std::string, std::string>>;

inline void must(int code) {
  if (code != 0) throw std::runtime_error(std::string("liblmdb: ") + mdb_strerror(code));
}

inline MDB_val value_of(std::string_view text) {
  return {text.size(), const_cast<char*>(text.data())};
}

/// Writes an environment with liblmdb: a directory, or a single file with MDB_NOSUBDIR in
/// `env_flags`; into the database `name` if given. One transaction per `batch` entries.
inline void write_with_liblmdb(const fs::path& path, const Entries& entries, unsigned env_flags = 0,
                               unsigned db_flags = 0, const char* name = nullptr,
                               std::size_t batch = 1 << 30) {
  if ((env_flags & MDB_NOSUBDIR) == 0) fs::create_directories(path);
  MDB_env* env = nullptr;
  must(mdb_env_create(&env));
  must(mdb_env_set_mapsize(env, std::size_t{256} << 20));
  must(mdb_env_set_maxdbs(env, 8));
  must(mdb_env_open(env, path.c_str(), env_flags | MDB_NOSYNC | MDB_NOLOCK, 0644));
  for (std::size_t begin = 0; begin == 0 || begin < entries.size(); begin += batch) {
    MDB_txn* txn = nullptr;
    MDB_dbi dbi = 0;
    must(mdb_txn_begin(env, nullptr, 0, &txn));
    must(mdb_dbi_open(txn, name, db_flags == 0 && name == nullptr ? 0 : db_flags | MDB_CREATE,
                      &dbi));
    for (std::size_t i = begin; i < entries.size() && i - begin < batch; ++i) {
      MDB_val key = value_of(entries[i].first);
      MDB_val value = value_of(entries[i].second);
      must(mdb_put(txn, dbi, &key, &value, 0));
    }
    must(mdb_txn_commit(txn));
  }
  mdb_env_close(env);
}

/// Reads all entries of the main database with liblmdb. `path`: the data file.
inline Entries read_with_liblmdb(const fs::path& path) {
  Entries entries;
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;
  MDB_dbi dbi = 0;
  MDB_cursor* cursor = nullptr;
  must(mdb_env_create(&env));
  must(mdb_env_open(env, path.c_str(), MDB_RDONLY | MDB_NOLOCK | MDB_NOSUBDIR, 0));
  must(mdb_txn_begin(env, nullptr, MDB_RDONLY, &txn));
  must(mdb_dbi_open(txn, nullptr, 0, &dbi));
  must(mdb_cursor_open(txn, dbi, &cursor));
  MDB_val key;
  MDB_val value;
  while (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0) {
    entries.emplace_back(std::string(static_cast<char*>(key.mv_data), key.mv_size),
                         std::string(static_cast<char*>(value.mv_data), value.mv_size));
  }
  mdb_cursor_close(cursor);
  mdb_txn_abort(txn);
  mdb_env_close(env);
  return entries;
}

inline std::string random_bytes(std::size_t size, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

/// One line per sample that tells any two samples apart.
inline std::string dump(const SampleView& sample) {
  std::string text(sample.key);
  for (const FieldView& field : sample.fields) {
    text += '|';
    text += field.name;
    text += '=';
    text += std::to_string(field.bytes.size()) + ':';
    text += as_text(field.bytes);
  }
  return text;
}

/// Reads all samples of a shard; throws as the reader does.
inline std::vector<std::string> dump_all(const Format& format, const fs::path& path,
                                         Access access = Access::kMap) {
  OpenShard shard(format, path, access);
  std::vector<std::string> all;
  SampleView sample;
  for (std::uint64_t n = 0; n < shard.reader().size(); ++n) {
    shard.reader().will_need(n);
    shard.reader().read(n, sample);
    all.push_back(dump(sample));
  }
  return all;
}

/// Writes samples into a shard; returns what dump_all() must give.
inline std::vector<std::string> write_all(Writer& writer, const std::vector<Sample>& samples) {
  std::vector<std::string> expected;
  for (const Sample& sample : samples) {
    writer.write(sample.view());
    expected.push_back(dump(sample.view()));
  }
  writer.close();
  return expected;
}

/// Runs `action`, which must throw an Error; returns it.
template <typename Action>
ErrorInfo error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.info();
  }
  FAIL("no error was thrown");
  return {};
}

}  // namespace shardmill::test
