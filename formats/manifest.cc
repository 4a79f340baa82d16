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

constexpr int kLayoutVersion = 1;
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

Manifest from_json(const Json& json, const std::string& path) {
  const int version = json.value("layout_version", kLayoutVersion);
  if (version > kLayoutVersion) {
    throw Error(ErrorCode::kUnsupported, path, {},
                "layout version " + std::to_string(version) + " is newer than this program's " +
                    std::to_string(kLayoutVersion),
                "update shardmill");
  }
  Manifest manifest;
  // A wids index made by other tools has no format: its shards are tars.
  manifest.format = json.value("format", "tar");
  for (const Json& shard : json.at("shardlist")) {
    manifest.shards.push_back(
        {shard.at("url").get<std::string>(), shard.at("nsamples").get<std::uint64_t>(),
         shard.value("filesize", std::uint64_t{0}), shard.value("xxh3_128", std::string())});
  }
  if (json.contains("fields")) {
    for (const Json& field : json.at("fields")) manifest.fields.push_back(field_from_json(field));
  }
  manifest.classes = json.value("classes", std::vector<std::string>());
  manifest.order = json.value("order", std::string("mixed"));
  manifest.libraries = json.value("libraries", std::map<std::string, std::string>());
  manifest.content_digest = json.value("content_digest", std::string());
  return manifest;
}

}  // namespace

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
  if (manifest.format == "tar") json["__kind__"] = kWidsKind;
  json["wids_version"] = 1;
  json["shardlist"] = Json::array();
  for (const ManifestShard& shard : manifest.shards) {
    Json entry = {{"url", shard.url}, {"nsamples", shard.samples}, {"filesize", shard.filesize}};
    if (!shard.xxh3.empty()) entry["xxh3_128"] = shard.xxh3;
    json["shardlist"].push_back(std::move(entry));
  }
  json["layout_version"] = kLayoutVersion;
  json["format"] = manifest.format;
  json["samples"] = manifest.samples();
  json["fields"] = Json::array();
  for (const FieldSpec& field : manifest.fields) json["fields"].push_back(field_to_json(field));
  json["classes"] = manifest.classes;
  json["order"] = manifest.order;
  json["libraries"] = manifest.libraries;
  if (!manifest.content_digest.empty()) json["content_digest"] = manifest.content_digest;
  // Class names may be any bytes (Latin-1 folder names): invalid UTF-8 becomes U+FFFD.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void save_manifest(const std::filesystem::path& file, const Manifest& manifest) {
  internal::write_file(file, as_bytes(manifest_text(manifest)));
}

}  // namespace shardmill
