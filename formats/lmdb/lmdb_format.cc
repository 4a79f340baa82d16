// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/format.h>

#include "formats/internal/shard_path.h"
#include "formats/lmdb/internal/describe.h"
#include "formats/lmdb/internal/environment.h"
#include "formats/lmdb/internal/index.h"
#include "formats/lmdb/reader.h"
#include "formats/lmdb/writer.h"

namespace shardmill {

namespace {

namespace fs = std::filesystem;

class LmdbFormat final : public Format {
 public:
  std::string_view name() const noexcept override { return "lmdb"; }
  std::string_view suffix() const noexcept override { return ".lmdb"; }
  FormatTraits traits() const noexcept override { return {}; }

  std::span<const std::string_view> layouts() const noexcept override {
    return lmdb::kForcedLayouts;
  }

  bool recognises(const fs::path& shard) const override {
    std::error_code error;
    const fs::path path = internal::file_of_shard(shard);
    // A directory with a data.mdb is meant as an environment even if that file is damaged.
    if (fs::is_directory(path, error)) return fs::exists(path / "data.mdb", error);
    if (!fs::is_regular_file(path, error)) return false;
    try {
      internal::InputFile file(path, Access::kRead);
      return lmdb::has_lmdb_magic(file);
    } catch (const std::exception&) {
      return false;
    }
  }

  std::vector<std::byte> build_index(const fs::path& path, Access access) const override {
    const internal::ShardPath parts = internal::split_shard_path(path);
    lmdb::Environment environment(lmdb::data_file_of(parts.file), access);
    return lmdb::make_index(environment, {parts.inner, lmdb::layout_from_name(parts.layout)});
  }

  std::unique_ptr<Reader> open(const fs::path& path, std::span<const std::byte> index,
                               Access access) const override {
    return std::make_unique<lmdb::LmdbReader>(internal::file_of_shard(path), index, access);
  }

  std::unique_ptr<Writer> create(const fs::path& path, const WriteOptions&) const override {
    return lmdb::create_writer(path);
  }

  fs::path data_file(const fs::path& shard) const override {
    std::error_code error;
    const fs::path path = internal::file_of_shard(shard);
    return fs::is_directory(path, error) ? path / "data.mdb" : path;
  }

  std::string describe(const fs::path& path, bool hash) const override {
    lmdb::Environment environment(lmdb::data_file_of(internal::file_of_shard(path)), Access::kAuto);
    return lmdb::describe_environment(environment, hash);
  }
};

}  // namespace

const Format& lmdb_format() {
  static const LmdbFormat format;
  return format;
}

}  // namespace shardmill
