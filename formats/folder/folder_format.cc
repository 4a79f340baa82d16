// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>

#include <nlohmann/json.hpp>

#include "formats/folder/internal/index.h"
#include "formats/folder/reader.h"
#include "formats/folder/writer.h"

namespace shardmill {

namespace {

namespace fs = std::filesystem;

class FolderFormat final : public Format {
 public:
  std::string_view name() const noexcept override { return "folder"; }
  std::string_view suffix() const noexcept override { return {}; }
  FormatTraits traits() const noexcept override { return {.memory_mapped = false}; }

  bool recognises(const fs::path& path) const override {
    std::error_code error;
    return fs::is_directory(path, error) && !fs::exists(path / "data.mdb", error);
  }

  std::vector<std::byte> build_index(const fs::path& path, Access) const override {
    return folder::build_index(path);
  }

  std::unique_ptr<Reader> open(const fs::path& path, std::span<const std::byte> index,
                               Access) const override {
    return std::make_unique<folder::FolderReader>(path, index);
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
