// SPDX-License-Identifier: Apache-2.0
#include "formats/lmdb/writer.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "formats/internal/output_file.h"
#include "formats/lmdb/internal/record.h"
#include "formats/lmdb/internal/tree_writer.h"
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

class LmdbWriter final : public Writer {
 public:
  explicit LmdbWriter(const fs::path& path);
  ~LmdbWriter() override;

  void write(const SampleView& sample) override;
  void close() override;

 private:
  void check_usable() const;
  void make_record(const SampleView& sample);
  void add(std::string_view key, std::span<const Bytes> pieces);
  std::string description() const;

  fs::path path_;
  fs::path temporary_;
  std::unique_ptr<TreeWriter> tree_;
  std::uint64_t samples_ = 0;
  std::set<std::string, std::less<>> names_;
  std::vector<const FieldView*> sorted_;
  RecordDraft record_;
};

LmdbWriter::LmdbWriter(const fs::path& path)
    : path_(path.has_filename() ? path : path.parent_path()),
      temporary_(shardmill::internal::temporary_name(path_)) {
  check_replaceable(path_);
  std::error_code error;
  fs::remove_all(temporary_, error);
  if (!fs::create_directory(temporary_, error)) {
    throw system_error(error ? error.value() : EEXIST, path_.string(), "cannot create");
  }
  try {
    tree_ = std::make_unique<TreeWriter>(temporary_ / kFileNames[0], path_.string());
  } catch (...) {
    fs::remove_all(temporary_, error);
    throw;
  }
}

LmdbWriter::~LmdbWriter() {
  tree_.reset();
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

void LmdbWriter::check_usable() const {
  if (tree_ != nullptr) return;
  throw Error(ErrorCode::kInternal, path_.string(), {},
              "writer was used after it failed or closed");
}

void LmdbWriter::make_record(const SampleView& sample) {
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
  record_.assign(sample.key, sorted_);
  if (record_.size() > kMaxRecordBytes) {
    throw Error(
        ErrorCode::kUnsupported, path_.string(), sample_place(sample.key),
        "sample of " + std::to_string(record_.size()) + " bytes, LMDB holds at most 4294967295",
        "split the sample, or use tar or HDF5");
  }
  if (samples_ >= kMaxSamples) {
    throw Error(ErrorCode::kUnsupported, path_.string(), sample_place(sample.key),
                "more than 10^12 samples in one shard", "use smaller shards");
  }
}

void LmdbWriter::write(const SampleView& sample) {
  check_usable();
  make_record(sample);
  for (const FieldView* field : sorted_) {
    if (!names_.contains(field->name)) names_.emplace(field->name);
  }
  char key[kKeyDigits];
  format_key(samples_, key);
  add({key, kKeyDigits}, record_.pieces());
  ++samples_;
}

// A write that failed may have left half an entry: nothing can follow it.
void LmdbWriter::add(std::string_view key, std::span<const Bytes> pieces) {
  try {
    tree_->add(key, pieces);
  } catch (...) {
    tree_.reset();
    throw;
  }
}

std::string LmdbWriter::description() const {
  nlohmann::ordered_json json;
  json["version"] = 1;
  json["count"] = samples_;
  json["fields"] = nlohmann::ordered_json::array();
  for (const std::string& name : names_) json["fields"].push_back(escape(name));
  return json.dump();
}

void LmdbWriter::close() {
  check_usable();
  const std::string text = description();
  const Bytes value = as_bytes(text);
  add(kDescriptionKey, {&value, 1});
  // Whatever happens now, the writer is used up.
  const std::unique_ptr<TreeWriter> tree = std::move(tree_);
  tree->close();
  // A directory can only be renamed onto an empty one: an older shard's files go first.
  std::error_code ignored;
  for (const char* name : kFileNames) fs::remove(path_ / name, ignored);
  shardmill::internal::publish(temporary_, path_);
}

}  // namespace

std::unique_ptr<Writer> create_writer(const fs::path& path) {
  return std::make_unique<LmdbWriter>(path);
}

}  // namespace shardmill::lmdb
