// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/resume.h"

#include <fmt/format.h>
#include <shardmill/formats/digest.h>
#include <shardmill/formats/error.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

namespace shardmill::internal {

namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;

[[noreturn]] void refuse(const std::string& cause) {
  throw Error(ErrorCode::kInvalidArgument, {}, "loader state", cause,
              "pass the text that Loader::state() returned");
}

}  // namespace

std::string hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

std::string SavedState::to_json() const {
  return Json{{"version", kVersion}, {"seed", seed},       {"epoch", epoch},    {"cursor", cursor},
              {"lanes", lanes},      {"dataset", dataset}, {"options", options}}
      .dump();
}

SavedState SavedState::from_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) refuse("is not a JSON object");
  const auto number = [&](const char* name) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number_unsigned()) {
      refuse(std::string("has no number \"") + name + "\"");
    }
    return found->get<std::uint64_t>();
  };
  const auto string = [&](const char* name) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_string()) {
      refuse(std::string("has no text \"") + name + "\"");
    }
    return found->get<std::string>();
  };
  if (const std::uint64_t version = number("version"); version != kVersion) {
    refuse("is of version " + std::to_string(version) + ", this program reads version 1");
  }
  SavedState state{number("seed"),  number("epoch"),   number("cursor"),
                   number("lanes"), string("dataset"), string("options")};
  if (state.lanes == 0) refuse("has 0 lanes");
  return state;
}

std::string dataset_identity(std::span<const Dataset> datasets) {
  std::string text;
  for (const Dataset& dataset : datasets) {
    text += dataset.format().name();
    if (dataset.manifest()) text += " " + dataset.manifest()->content_digest;
    text += '\n';
    for (std::size_t part = 0; part < dataset.parts().size(); ++part) {
      const DatasetPart& shards = dataset.parts()[part];
      for (std::size_t s = 0; s < shards.shards.size(); ++s) {
        const DatasetShard& shard = shards.shards[s];
        const std::filesystem::path file = shards.format->data_file(shard.path);
        if (file.empty()) {  // raw files: the index lists them
          text += hash_bytes(dataset.shard_index(s, part)).hex() + '\n';
          continue;
        }
        std::error_code ignored;
        const std::uintmax_t bytes = std::filesystem::file_size(file, ignored);
        text += shard.path.filename().string() + fmt::format("\t{}\t{}\n", shard.samples, bytes);
      }
    }
  }
  return hash_bytes(as_bytes(text)).hex();
}

}  // namespace shardmill::internal
