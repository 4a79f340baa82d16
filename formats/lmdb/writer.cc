// SPDX-License-Identifier: Apache-2.0
#include "formats/lmdb/writer.h"

#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "formats/internal/output_file.h"
#include "formats/lmdb/internal/lmdb_handles.h"
#include "formats/lmdb/internal/record.h"
#include "formats/lmdb/internal/walk.h"

namespace shardmill::lmdb {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMaxSamples = 1'000'000'000'000;  // what a key's digits can count

constexpr std::array<const char*, 2> kFileNames = {"data.mdb", "lock.mdb"};

// Throws unless `path` is free, an empty directory, or an LMDB directory with nothing else in it.
void check_replaceable(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return;
  const std::string remedy = "remove it or choose another name";
  if (!fs::is_directory(path, error)) {
    throw Error(ErrorCode::kInvalidArgument, path.string(), {},
                "is a file, an LMDB shard is a directory", remedy);
  }
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    if (std::find(kFileNames.begin(), kFileNames.end(), name) != kFileNames.end()) continue;
    throw Error(ErrorCode::kInvalidArgument, path.string(), {},
                "directory holds other files than an LMDB shard: \"" + escape(name) + '"', remedy);
  }
}

// True if the disk takes no more bytes. liblmdb reports a write that was cut short, which is what
// a full disk does first, as an I/O error. Spoils the file.
bool disk_is_full(const fs::path& file, std::uint64_t up_to) {
  const int fd = open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd < 0) return false;
  static constexpr std::array<char, 4096> kBlock{};
  ssize_t written = 0;
  for (std::uint64_t done = 0; done <= up_to && written >= 0; done += kBlock.size()) {
    written = ::write(fd, kBlock.data(), kBlock.size());
  }
  const bool full = written < 0 && (errno == ENOSPC || errno == EDQUOT);
  close(fd);
  return full;
}

class LmdbWriter final : public Writer {
 public:
  LmdbWriter(const fs::path& path, const WriterSizes& sizes);
  ~LmdbWriter() override;

  void write(const SampleView& sample) override;
  void close() override;

 private:
  void check_usable() const;
  void check(const SampleView& sample);
  void commit(std::string_view description);
  int make_room();
  int try_commit(std::string_view description);
  std::string description() const;
  [[noreturn]] void fail(int code) const;

  fs::path path_;
  fs::path temporary_;
  WriterSizes sizes_;
  std::uint64_t map_bytes_;
  EnvPtr env_;
  // The records of the open transaction: all of it is written again after a full map.
  std::string pending_;
  std::vector<std::uint64_t> ends_;
  std::uint64_t committed_ = 0;  // samples in the file
  const char* call_ = "";        // what failed, for messages
  std::set<std::string, std::less<>> names_;
  std::vector<const FieldView*> sorted_;
};

LmdbWriter::LmdbWriter(const fs::path& path, const WriterSizes& sizes)
    : path_(path.has_filename() ? path : path.parent_path()),
      temporary_(shardmill::internal::temporary_name(path_)),
      sizes_(sizes),
      map_bytes_(sizes.first_map_bytes) {
  check_replaceable(path_);
  std::error_code error;
  fs::remove_all(temporary_, error);
  if (!fs::create_directory(temporary_, error)) {
    throw system_error(error ? error.value() : EEXIST, path_.string(), "cannot create");
  }
  MDB_env* env = nullptr;
  call_ = "mdb_env_create";
  int code = mdb_env_create(&env);
  env_.reset(env);
  if (code == 0) code = mdb_env_set_mapsize(env, map_bytes_);
  if (code == 0) {
    call_ = "mdb_env_open";
    // No lock file: the temporary directory is this writer's alone. Synced once, by publish().
    code = mdb_env_open(env, temporary_.c_str(), MDB_NOLOCK | MDB_NOSYNC, 0666);
  }
  if (code == 0) return;
  env_.reset();
  const bool full = code == EIO && disk_is_full(temporary_ / "data.mdb", 0);
  fs::remove_all(temporary_, error);
  fail(full ? ENOSPC : code);
}

LmdbWriter::~LmdbWriter() {
  env_.reset();
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

void LmdbWriter::check_usable() const {
  if (env_ != nullptr) return;
  throw Error(ErrorCode::kInternal, path_.string(), {},
              "writer was used after it failed or closed");
}

void LmdbWriter::check(const SampleView& sample) {
  check_key(sample.key, path_.string());
  sorted_.clear();
  for (const FieldView& field : sample.fields) sorted_.push_back(&field);
  const auto less = [](const FieldView* a, const FieldView* b) { return a->name < b->name; };
  if (!std::is_sorted(sorted_.begin(), sorted_.end(), less)) {
    std::sort(sorted_.begin(), sorted_.end(), less);
  }
  for (std::size_t i = 0; i < sorted_.size(); ++i) {
    const std::string_view name = sorted_[i]->name;
    const bool reserved = name == kKeyName;
    if (reserved || (i > 0 && sorted_[i - 1]->name == name)) {
      throw Error(ErrorCode::kInvalidArgument, path_.string(), sample_place(sample.key, name),
                  reserved ? "this name holds the sample's key" : "duplicate field",
                  "rename the field");
    }
  }
  const std::uint64_t size = record_size(sample.key, sorted_);
  if (size > kMaxRecordBytes) {
    throw Error(ErrorCode::kUnsupported, path_.string(), sample_place(sample.key),
                "sample of " + std::to_string(size) + " bytes, LMDB holds at most 4294967295",
                "split the sample, or use tar or HDF5");
  }
  if (committed_ + ends_.size() >= kMaxSamples) {
    throw Error(ErrorCode::kUnsupported, path_.string(), sample_place(sample.key),
                "more than 10^12 samples in one shard", "use smaller shards");
  }
}

void LmdbWriter::write(const SampleView& sample) {
  check_usable();
  check(sample);
  append_record(sample.key, sorted_, pending_);
  ends_.push_back(pending_.size());
  for (const FieldView* field : sorted_) {
    if (!names_.contains(field->name)) names_.emplace(field->name);
  }
  if (pending_.size() >= sizes_.transaction_bytes) commit({});
}

// A transaction that does not fit is written twice: grows the map before, by what it should need.
// Values of a page and more have pages of their own, the last of them partly empty.
int LmdbWriter::make_room() {
  MDB_envinfo info{};
  if (const int code = mdb_env_info(env_.get(), &info); code != 0) return code;
  constexpr std::uint64_t kPage = 4096;
  const std::uint64_t needed =
      (info.me_last_pgno + 1) * kPage + pending_.size() + pending_.size() / 16 +
      ends_.size() * (pending_.size() > ends_.size() * (kPage / 4) ? kPage : 32);
  if (needed <= map_bytes_) return 0;
  while (map_bytes_ < needed) map_bytes_ *= 2;
  call_ = "mdb_env_set_mapsize";
  return mdb_env_set_mapsize(env_.get(), map_bytes_);
}

void LmdbWriter::commit(std::string_view description) {
  if (const int code = make_room(); code != 0) fail(code);
  for (;;) {
    const int code = try_commit(description);
    if (code == 0) break;
    if (code != MDB_MAP_FULL) {
      env_.reset();
      const bool full = code == EIO && disk_is_full(temporary_ / "data.mdb", pending_.size());
      fail(full ? ENOSPC : code);
    }
    map_bytes_ *= 2;
    call_ = "mdb_env_set_mapsize";
    if (const int grown = mdb_env_set_mapsize(env_.get(), map_bytes_); grown != 0) fail(grown);
  }
  committed_ += ends_.size();
  ends_.clear();
  pending_.clear();
  // One huge sample must not hold its memory until the end of the shard.
  if (pending_.capacity() > 2 * sizes_.transaction_bytes) pending_.shrink_to_fit();
}

int LmdbWriter::try_commit(std::string_view description) {
  MDB_txn* begun = nullptr;
  MDB_dbi dbi = 0;
  call_ = "mdb_txn_begin";
  int code = mdb_txn_begin(env_.get(), nullptr, 0, &begun);
  TxnPtr txn(begun);
  if (code == 0) code = mdb_dbi_open(begun, nullptr, 0, &dbi);
  const auto put = [&](std::string_view key, std::string_view value) {
    MDB_val k{key.size(), const_cast<char*>(key.data())};
    MDB_val v{value.size(), const_cast<char*>(value.data())};
    return mdb_put(begun, dbi, &k, &v, MDB_APPEND);
  };
  if (code == 0) call_ = "mdb_put";
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < ends_.size() && code == 0; begin = ends_[i++]) {
    char key[kKeyDigits];
    format_key(committed_ + i, key);
    code = put({key, kKeyDigits}, std::string_view(pending_).substr(begin, ends_[i] - begin));
  }
  if (code == 0 && !description.empty()) code = put(kDescriptionKey, description);
  if (code != 0) return code;
  call_ = "mdb_txn_commit";
  return mdb_txn_commit(txn.release());  // frees the transaction even if it fails
}

std::string LmdbWriter::description() const {
  nlohmann::ordered_json json;
  json["version"] = 1;
  json["count"] = committed_ + ends_.size();
  json["fields"] = nlohmann::ordered_json::array();
  for (const std::string& name : names_) json["fields"].push_back(escape(name));
  return json.dump();
}

void LmdbWriter::close() {
  check_usable();
  commit(description());
  env_.reset();
  // A directory can only be renamed onto an empty one: an older shard's files go first.
  std::error_code ignored;
  for (const char* name : kFileNames) fs::remove(path_ / name, ignored);
  shardmill::internal::publish(temporary_, path_);
}

void LmdbWriter::fail(int code) const {
  if (code > 0) throw system_error(code, path_.string(), call_);
  throw Error(ErrorCode::kInternal, path_.string(), {},
              std::string(call_) + ": " + mdb_strerror(code));
}

}  // namespace

std::unique_ptr<Writer> create_writer(const fs::path& path, const WriterSizes& sizes) {
  return std::make_unique<LmdbWriter>(path, sizes);
}

}  // namespace shardmill::lmdb
