// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/plan_file.h"

#include <shardmill/formats/digest.h>
#include <shardmill/formats/error.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "converters/internal/wire.h"
#include "converters/internal/working_files.h"
#include "formats/internal/flat_index.h"
#include "formats/internal/input_file.h"
#include "formats/internal/output_file.h"

namespace shardmill::internal {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

constexpr int kVersion = 2;
constexpr std::uint64_t kMagic = 0x324E4C504D485331;  // "1SHMPLN2"

std::string pack_options(const OptionTexts& options) {
  std::vector<std::string> texts;
  for (const auto& [name, text] : options) {
    texts.push_back(name);
    texts.push_back(text);
  }
  return pack_texts(texts);
}

OptionTexts unpack_options(std::string_view packed) {
  const std::vector<std::string> texts = unpack_texts(std::string(packed));
  OptionTexts options;
  for (std::size_t i = 0; i + 1 < texts.size(); i += 2) options[texts[i]] = texts[i + 1];
  return options;
}

Json to_json(const ConvertPlan& plan) {
  Json json = {{"shardmill_plan", kVersion},
               {"source_bytes", plan.source_bytes},
               {"forecast_bytes", plan.forecast_bytes},
               {"parts", Json::array()}};
  for (const PlannedPart& part : plan.parts) {
    json["parts"].push_back({{"name", part.name},
                             {"samples", part.samples},
                             {"manifest", Json::parse(manifest_text(part.manifest))}});
  }
  json["shards"] = Json::array();
  for (const PlannedShard& shard : plan.shards) {
    json["shards"].push_back(
        {shard.url, shard.part, shard.first, shard.samples, shard.source_bytes});
  }
  json["ranges"] = Json::array();
  for (const SampleOrder::Range& range : plan.order.ranges()) {
    Json entry = {{"size", range.size}};
    if (range.seed) entry["seed"] = *range.seed;
    json["ranges"].push_back(std::move(entry));
  }
  json["skipped"] = Json::array();
  for (const SkippedSample& sample : plan.skipped) {
    json["skipped"].push_back({sample.path, sample.key, sample.field, sample.cause});
  }
  return json;
}

[[noreturn]] void damaged(const fs::path& path, const std::string& cause) {
  throw Error(ErrorCode::kDataLoss, path.string(), {}, "the plan cannot be used: " + cause,
              "convert again with --force");
}

// The data file's bytes, at a multiple of 8.
std::shared_ptr<const std::vector<std::uint64_t>> read_words(const fs::path& path) {
  InputFile file(path, Access::kRead);
  const Bytes bytes = file.bytes(0, file.size());
  auto words = std::make_shared<std::vector<std::uint64_t>>((bytes.size() + 7) / 8);
  if (bytes.size() % 8 != 0) damaged(path, "its data are cut off");
  if (!bytes.empty()) std::memcpy(words->data(), bytes.data(), bytes.size());
  return words;
}

void read_plan(const Json& json, ConvertPlan& plan, const fs::path& path) {
  plan.source_bytes = json.at("source_bytes").get<std::uint64_t>();
  plan.forecast_bytes = json.at("forecast_bytes").get<std::uint64_t>();
  for (const Json& part : json.at("parts")) {
    plan.parts.push_back({part.at("name").get<std::string>(),
                          parse_manifest(part.at("manifest").dump(), path.string()),
                          part.at("samples").get<std::uint64_t>()});
  }
  for (const Json& shard : json.at("shards")) {
    plan.shards.push_back({shard.at(0).get<std::string>(), shard.at(1).get<std::size_t>(),
                           shard.at(2).get<std::uint64_t>(), shard.at(3).get<std::uint64_t>(),
                           shard.at(4).get<std::uint64_t>()});
    if (plan.shards.back().part >= plan.parts.size()) damaged(path, "a shard of no part");
  }
  for (const Json& sample : json.at("skipped")) {
    plan.skipped.push_back({sample.at(0).get<std::string>(), sample.at(1).get<std::string>(),
                            sample.at(2).get<std::string>(), sample.at(3).get<std::string>()});
  }
}

}  // namespace

void save_plan(const fs::path& directory, const OptionTexts& options, const ConvertPlan& plan,
               const SourceSet& sources, const std::vector<std::string>& keep) {
  FlatIndexWriter writer(kMagic);
  const std::string packed = pack_options(options);
  const std::string classes = pack_texts(sources.classes());
  const std::string kept = pack_texts(keep);
  writer.add(packed);
  writer.add(classes);
  writer.add(kept);
  std::vector<std::vector<std::byte>> flats;
  for (const SourcePtr& source : sources.sources()) flats.push_back(source->flat());
  for (const std::vector<std::byte>& flat : flats) writer.add(std::span<const std::byte>(flat));
  for (const SampleOrder::Range& range : plan.order.ranges()) {
    writer.add(std::span<const std::uint64_t>(range.chosen));
  }
  const std::vector<std::byte> data = writer.finish();
  write_file(directory / kPlanDataName, data);
  Json json = to_json(plan);
  json["sources"] = Json::array();
  for (const SourcePtr& source : sources.sources()) json["sources"].push_back(source->kind());
  json["data_xxh3"] = hash_bytes(data).hex();
  json["options"] = Json::object();  // for people
  for (const auto& [name, text] : options) json["options"][name] = escape(text);
  const std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  write_file(directory / kPlanName, as_bytes(text));
}

StoredPlan load_plan(const fs::path& directory) {
  const fs::path path = directory / kPlanName;
  std::ifstream in(path);
  StoredPlan stored;
  try {
    const Json json = Json::parse(in);
    if (json.value("shardmill_plan", 0) != kVersion) damaged(path, "another version made it");
    const auto words = read_words(directory / kPlanDataName);
    const Bytes data = std::as_bytes(std::span(*words));
    if (hash_bytes(data).hex() != json.at("data_xxh3").get<std::string>()) {
      damaged(path, "its data are not what was written");
    }
    const auto kinds = json.at("sources").get<std::vector<std::string>>();
    const std::size_t count = kinds.size();
    const Json& ranges = json.at("ranges");
    FlatIndexReader reader(data, kMagic, 3 + count + ranges.size(), path.string());
    stored.options = unpack_options(reader.text(0));
    stored.keep = unpack_texts(std::string(reader.text(2)));
    std::vector<SourceSet::Stored> sources;
    for (std::size_t i = 0; i < count; ++i) {
      sources.push_back({kinds[i], reader.get<std::byte>(3 + i)});
    }
    stored.sources = SourceSet::attach(sources, unpack_texts(std::string(reader.text(1))), words);
    read_plan(json, stored.plan, path);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const auto chosen = reader.get<std::uint64_t>(3 + count + i);
      std::optional<std::uint64_t> seed;
      if (ranges[i].contains("seed")) seed = ranges[i].at("seed").get<std::uint64_t>();
      stored.plan.order.add(ranges[i].at("size").get<std::uint64_t>(),
                            {chosen.begin(), chosen.end()}, seed);
    }
  } catch (const Json::exception& error) {
    damaged(path, error.what());
  }
  return stored;
}

std::vector<PlannedName> planned_names(const fs::path& directory) {
  std::vector<PlannedName> names;
  std::ifstream in(directory / kPlanName);
  const Json json = Json::parse(in, nullptr, false);
  if (!json.is_object() || !json.contains("shards") || !json.contains("parts")) return names;
  try {
    for (const Json& shard : json.at("shards")) {
      const Json& part = json.at("parts").at(shard.at(1).get<std::size_t>());
      PlannedName name{part.at("name").get<std::string>(), shard.at(0).get<std::string>()};
      if (name.part.find('/') == std::string::npos && name.part != "..") names.push_back(name);
    }
  } catch (const Json::exception&) {
    // Not one of ours, or of another version: what was read so far counts.
  }
  return names;
}

}  // namespace shardmill::internal
