// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>

#include "formats/hdf5/describe.h"
#include "formats/hdf5/internal/hdf5_handles.h"
#include "formats/hdf5/internal/index_builder.h"
#include "formats/hdf5/internal/superblock.h"
#include "formats/hdf5/reader.h"
#include "formats/hdf5/writer.h"
#include "formats/internal/shard_path.h"

namespace shardmill {

namespace {

class Hdf5Format final : public Format {
 public:
  std::string_view name() const noexcept override { return "hdf5"; }
  std::string_view suffix() const noexcept override { return ".h5"; }
  FormatTraits traits() const noexcept override {
    // The library, which reads what is compressed, serves one thread at a time.
    return {.threads = false};
  }

  bool recognises(const std::filesystem::path& path) const override {
    return hdf5::has_signature(internal::file_of_shard(path));
  }

  std::vector<std::byte> build_index(const std::filesystem::path& path,
                                     Access access) const override {
    const internal::ShardPath parts = internal::split_shard_path(path);
    std::vector<std::byte> flat = hdf5::build_index(parts.file.string(), parts.inner).flat();
    hdf5::Hdf5Reader(parts.file, flat, access).check_ends();
    return flat;
  }

  std::unique_ptr<Reader> open(const std::filesystem::path& path, std::span<const std::byte> index,
                               Access access) const override {
    return std::make_unique<hdf5::Hdf5Reader>(internal::file_of_shard(path), index, access);
  }

  std::unique_ptr<Writer> create(const std::filesystem::path& path,
                                 const WriteOptions& options) const override {
    return std::make_unique<hdf5::Hdf5Writer>(path, options);
  }

  std::filesystem::path data_file(const std::filesystem::path& path) const override {
    return internal::file_of_shard(path);
  }

  std::string describe(const std::filesystem::path& path, bool hash) const override {
    return hdf5::describe(data_file(path).string(), hash);
  }

  std::string library() const override {
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    const hdf5::Session session;
    H5get_libversion(&major, &minor, &release);
    return "hdf5 " + std::to_string(major) + "." + std::to_string(minor) + "." +
           std::to_string(release);
  }
};

}  // namespace

const Format& hdf5_format() {
  static const Hdf5Format format;
  return format;
}

}  // namespace shardmill
