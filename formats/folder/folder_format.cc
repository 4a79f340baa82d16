// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "formats/folder/internal/index.h"
#include "formats/folder/reader.h"
#include "formats/folder/writer.h"
#include "formats/internal/shard_path.h"

namespace shardmill {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 2> kForcedLayouts = {"class-per-directory", "flat"};

class FolderFormat final : public Format {
 public:
  std::string_view name() const noexcept override { return "folder"; }
  std::string_view suffix() const noexcept override { return {}; }
  FormatTraits traits() const noexcept override { return {.memory_mapped = false}; }

  std::span<const std::string_view> layouts() const noexcept override { return kForcedLayouts; }

  bool recognises(const fs::path& shard) const override {
    std::error_code error;
    const internal::ShardPath parts = internal::split_shard_path(shard);
    return parts.inner.empty() && fs::is_directory(parts.file, error) &&
           !fs::exists(parts.file / "data.mdb", error);
  }

  std::vector<std::byte> build_index(const fs::path& path, Access) const override {
    const internal::ShardPath parts = internal::split_shard_path(path);
    std::optional<folder::Layout> layout;
    if (parts.layout == kForcedLayouts[0]) layout = folder::Layout::kClassPerDirectory;
    if (parts.layout == kForcedLayouts[1]) layout = folder::Layout::kFlat;
    return folder::build_index(parts.file, layout);
  }

  std::unique_ptr<Reader> open(const fs::path& path, std::span<const std::byte> index,
                               Access) const override {
    return std::make_unique<folder::FolderReader>(internal::file_of_shard(path), index);
  }

  std::unique_ptr<Writer> create(const fs::path& path, const WriteOptions&) const override {
    return std::make_unique<folder::FolderWriter>(path);
  }

  fs::path data_file(const fs::path&) const override { return {}; }

  std::string describe(const fs::path& path, bool) const override {
    const std::vector<std::byte> bytes = folder::build_index(path);
    const folder::Index index(bytes, path.string());
    nlohmann::ordered_json json = {{"format", "folder"},
                                   {"layout", folder::layout_name(index.layout())},
                                   {"samples", index.size()},
                                   {"classes", nlohmann::ordered_json::array()},
                                   {"warnings", index.warnings()}};
    for (const std::string& name : index.classes()) json["classes"].push_back(escape(name));
    return json.dump();
  }
};

}  // namespace

const Format& folder_format() {
  static const FolderFormat format;
  return format;
}

}  // namespace shardmill
