// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>
#include <shardmill/formats/manifest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "formats/internal/output_file.h"

namespace shardmill {

namespace {

using Json = nlohmann::ordered_json;

constexpr FieldValue kFieldValues[] = {FieldValue::kAsStored, FieldValue::kSqueezed,
                                       FieldValue::kNumber, FieldValue::kName, FieldValue::kShard};
// A manifest with rules or joined sets would be misread by programs that know version 1 alone.
constexpr int kPlainLayout = 1;
constexpr int kLayoutVersion = 2;
constexpr const char* kWidsKind = "wids-shard-index-v1";

Json field_to_json(const FieldSpec& field) {
  Json json = {{"name", field.name}, {"kind", field_kind_name(field.kind)}};
  if (field.kind == FieldKind::kArray) {
    json["dtype"] = dtype_name(field.array.dtype);
    json["shape"] = field.array.shape;
  }
  if (field.optional) json["optional"] = true;
  return json;
}

FieldSpec field_from_json(const Json& json) {
  FieldSpec field;
  field.name = json.at("name").get<std::string>();
  field.optional = json.value("optional", false);
  const auto kind = json.at("kind").get<std::string>();
  for (const FieldKind known : {FieldKind::kBytes, FieldKind::kClass, FieldKind::kArray}) {
    if (kind == field_kind_name(known)) field.kind = known;
  }
  if (field.kind == FieldKind::kArray) {
    const auto dtype = dtype_from_name(json.at("dtype").get<std::string>());
    if (!dtype) throw Error(ErrorCode::kDataLoss, {}, {}, "unknown dtype of field " + field.name);
    field.array = {*dtype, json.at("shape").get<std::vector<std::uint64_t>>()};
  }
  return field;
}

Json rule_to_json(const FieldRule& rule) {
  Json json = {{"name", rule.name}, {"part", rule.part}, {"from", rule.from}};
  if (!rule.pointer.empty()) json["pointer"] = rule.pointer;
  json["value"] = field_value_name(rule.value);
  if (!rule.numbers.empty()) json["numbers"] = rule.numbers;
  return json;
}

FieldRule rule_from_json(const Json& json) {
  FieldRule rule{json.at("name").get<std::string>(), json.at("part").get<std::uint32_t>(),
                 json.value("from", std::string()), json.value("pointer", std::string())};
  const auto value = json.value("value", std::string("stored"));
  bool known = false;
  for (const FieldValue candidate : kFieldValues) {
    if (value != field_value_name(candidate)) continue;
    rule.value = candidate;
    known = true;
  }
  if (!known) {
    throw Error(ErrorCode::kDataLoss, {}, {}, "malformed manifest: unknown value of a field");
  }
  rule.numbers = json.value("numbers", std::vector<std::int64_t>());
  return rule;
}

void add_shards(const Json& list, Manifest& manifest) {
  for (const Json& shard : list) {
    manifest.shards.push_back(
        {shard.at("url").get<std::string>(), shard.at("nsamples").get<std::uint64_t>(),
         shard.value("filesize", std::uint64_t{0}), shard.value("xxh3_128", std::string())});
  }
}

Json shards_to_json(const Manifest& manifest) {
  Json list = Json::array();
  for (const ManifestShard& shard : manifest.shards) {
    Json entry = {{"url", shard.url}, {"nsamples", shard.samples}, {"filesize", shard.filesize}};
    if (!shard.xxh3.empty()) entry["xxh3_128"] = shard.xxh3;
    list.push_back(std::move(entry));
  }
  return list;
}

// Rules and joined sets must fit each other before anyone follows them.
void check_view(const Manifest& manifest, const std::string& path) {
  const auto malformed = [&](const std::string& cause) {
    throw Error(ErrorCode::kDataLoss, path, {}, "malformed manifest: " + cause,
                "make it again with shardmill index");
  };
  for (const Manifest& other : manifest.joined) {
    if (other.samples() != manifest.samples()) malformed("joined sets differ in length");
  }
  for (const FieldRule& rule : manifest.rules) {
    if (rule.part > manifest.joined.size()) malformed("a field of a set that is not there");
    if (rule.value == FieldValue::kShard &&
        (rule.part != 0 || rule.numbers.size() != manifest.shards.size())) {
      malformed("class numbers of other shards");
    }
  }
  for (std::size_t i = 1; i < manifest.rules.size(); ++i) {
    if (manifest.rules[i - 1].name >= manifest.rules[i].name) malformed("fields are not sorted");
  }
  if (!manifest.joined.empty() && manifest.rules.empty()) malformed("joined sets without fields");
}

Manifest from_json(const Json& json, const std::string& path) {
  const int version = json.value("layout_version", kPlainLayout);
  if (version > kLayoutVersion) {
    throw Error(ErrorCode::kUnsupported, path, {},
                "layout version " + std::to_string(version) + " is newer than this program's " +
                    std::to_string(kLayoutVersion),
                "update shardmill");
  }
  Manifest manifest;
  // A wids index made by other tools has no format: its shards are tars.
  manifest.format = json.value("format", "tar");
  add_shards(json.at("shardlist"), manifest);
  if (json.contains("fields")) {
    for (const Json& field : json.at("fields")) manifest.fields.push_back(field_from_json(field));
  }
  manifest.classes = json.value("classes", std::vector<std::string>());
  manifest.order = json.value("order", std::string("mixed"));
  manifest.libraries = json.value("libraries", std::map<std::string, std::string>());
  manifest.content_digest = json.value("content_digest", std::string());
  manifest.index = json.value("index", std::string());
  if (json.contains("with")) {
    for (const Json& other : json.at("with")) {
      Manifest& joined = manifest.joined.emplace_back();
      joined.format = other.at("format").get<std::string>();
      add_shards(other.at("shardlist"), joined);
    }
  }
  if (json.contains("view")) {
    for (const Json& rule : json.at("view")) manifest.rules.push_back(rule_from_json(rule));
  }
  check_view(manifest, path);
  return manifest;
}

}  // namespace

std::string_view field_value_name(FieldValue value) noexcept {
  constexpr std::string_view kNames[] = {"stored", "squeezed", "number", "name", "shard"};
  return kNames[static_cast<std::size_t>(value)];
}

std::uint64_t Manifest::samples() const noexcept {
  std::uint64_t total = 0;
  for (const ManifestShard& shard : shards) total += shard.samples;
  return total;
}

Manifest parse_manifest(std::string_view text, const std::string& path) {
  try {
    return from_json(Json::parse(text), path);
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kDataLoss, path, {}, std::string("malformed manifest: ") + error.what(),
                "convert the data again");
  }
}

Manifest load_manifest(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error(ErrorCode::kNotFound, file.string(), {}, "cannot open the manifest");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return parse_manifest(text, file.string());
}

std::string manifest_text(const Manifest& manifest) {
  Json json;
  // The mark only where it is true, so that wids never takes LMDB or HDF5 files for tars.
  // Nor for samples that differ from what the tars hold.
  const bool plain = manifest.rules.empty();
  if (manifest.format == "tar" && plain) json["__kind__"] = kWidsKind;
  json["wids_version"] = 1;
  json["shardlist"] = shards_to_json(manifest);
  json["layout_version"] = plain ? kPlainLayout : kLayoutVersion;
  json["format"] = manifest.format;
  json["samples"] = manifest.samples();
  json["fields"] = Json::array();
  for (const FieldSpec& field : manifest.fields) json["fields"].push_back(field_to_json(field));
  json["classes"] = manifest.classes;
  json["order"] = manifest.order;
  json["libraries"] = manifest.libraries;
  if (!manifest.content_digest.empty()) json["content_digest"] = manifest.content_digest;
  if (!manifest.index.empty()) json["index"] = manifest.index;
  for (const Manifest& other : manifest.joined) {
    json["with"].push_back({{"format", other.format}, {"shardlist", shards_to_json(other)}});
  }
  for (const FieldRule& rule : manifest.rules) json["view"].push_back(rule_to_json(rule));
  // Class names may be any bytes (Latin-1 folder names): invalid UTF-8 becomes U+FFFD.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void save_manifest(const std::filesystem::path& file, const Manifest& manifest) {
  internal::write_file(file, as_bytes(manifest_text(manifest)));
}

}  // namespace shardmill
