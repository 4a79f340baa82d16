// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/flat_dataset.h"

#include <shardmill/formats/error.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

namespace shardmill::internal {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kFlatMagic = 0x32304C464D485321;  // "!SHMFL02"

struct FlatHeader {
  std::uint64_t magic = kFlatMagic;
  std::uint64_t size = 0;
  std::uint64_t json_offset = 0;
  std::uint64_t json_size = 0;
  std::uint64_t shards = 0;  // of all parts, one part behind the other
};

struct FlatShard {
  std::uint64_t samples = 0;
  std::uint64_t file = 0;  // 0: the index is here; else number of an index file, and `at` an entry
  std::uint64_t at = 0;
  std::uint64_t size = 0;
};

constexpr std::uint64_t aligned(std::uint64_t n) { return (n + 7) / 8 * 8; }

// JSON strings must be UTF-8, paths and class names need not be: carried as hexadecimal.
std::string to_hex(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : text) {
    hex += kDigits[static_cast<unsigned char>(c) >> 4];
    hex += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return hex;
}

std::string from_hex(const std::string& hex) {
  std::string text;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    text += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return text;
}

Json to_hex(const std::vector<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) list.push_back(to_hex(text));
  return list;
}

std::vector<std::string> from_hex_list(const Json& list) {
  std::vector<std::string> texts;
  for (const Json& item : list) texts.push_back(from_hex(item.get<std::string>()));
  return texts;
}

// What an index is copied from, empty if it is only named.
Bytes copied(const IndexPlace& place) {
  if (place.file == nullptr) return place.bytes;
  return place.file->mapped() ? Bytes() : place.file->entry(place.entry).index;
}

Json describe(const FlatDataset& dataset, const std::vector<const IndexFile*>& files) {
  Json json = {{"spec", to_hex(dataset.spec)},
               {"access", static_cast<int>(dataset.access)},
               {"classes", to_hex(dataset.info.classes)},
               {"kind_reason", to_hex(dataset.kind_reason)},
               {"layout", to_hex(dataset.info.layout)},
               {"warnings", to_hex(dataset.info.warnings)},
               {"parts", Json::array()},
               {"files", Json::array()}};
  for (const DatasetPart& part : dataset.parts) {
    Json paths = Json::array();
    for (const DatasetShard& shard : part.shards) paths.push_back(to_hex(shard.path.string()));
    json["parts"].push_back({{"format", part.format->name()}, {"paths", std::move(paths)}});
  }
  for (const IndexFile* file : files) {
    json["files"].push_back({{"path", to_hex(file->path())},
                             {"size", file->stamp().size},
                             {"mtime_ns", file->stamp().mtime_ns}});
  }
  if (dataset.manifest) json["manifest"] = manifest_text(*dataset.manifest);
  return json;
}

std::shared_ptr<const IndexFile> reopen(const Json& json) {
  auto file = std::make_shared<const IndexFile>(from_hex(json.at("path").get<std::string>()));
  const FileStamp stamp{json.at("size").get<std::uint64_t>(),
                        json.at("mtime_ns").get<std::int64_t>()};
  if (file->stamp() != stamp) {
    throw Error(ErrorCode::kDataLoss, file->path(), {}, "the index was replaced while it was used",
                "start again");
  }
  return file;
}

void read_parts(const Json& json, Bytes flat, std::span<const FlatShard> table,
                FlatDataset& dataset) {
  std::vector<std::shared_ptr<const IndexFile>> files;
  for (const Json& file : json.at("files")) files.push_back(reopen(file));
  std::size_t row = 0;
  for (const Json& entry : json.at("parts")) {
    DatasetPart& part = dataset.parts.emplace_back();
    std::vector<IndexPlace>& indices = dataset.indices.emplace_back();
    part.format = &find_format(entry.at("format").get<std::string>());
    std::uint64_t first = 0;
    for (const std::string& path : from_hex_list(entry.at("paths"))) {
      const FlatShard& shard = table[row++];
      part.shards.push_back({path, first, shard.samples});
      first += shard.samples;
      if (shard.file == 0) {
        indices.push_back({flat.subspan(shard.at, shard.size), nullptr, 0});
      } else {
        indices.push_back({{}, files.at(shard.file - 1), shard.at});
      }
    }
  }
}

}  // namespace

Bytes FlatDataset::index(std::size_t part, std::size_t s) const {
  const IndexPlace& place = indices[part][s];
  if (place.file == nullptr) return place.bytes;
  place.file->verify(place.entry);
  return place.file->entry(place.entry).index;
}

std::vector<std::uint64_t> pack_dataset(const FlatDataset& dataset) {
  std::map<const IndexFile*, std::uint64_t> numbers;
  std::vector<const IndexFile*> files;
  std::vector<FlatShard> table;
  std::vector<Bytes> copies;
  for (std::size_t p = 0; p < dataset.parts.size(); ++p) {
    for (std::size_t s = 0; s < dataset.parts[p].shards.size(); ++s) {
      const IndexPlace& place = dataset.indices[p][s];
      FlatShard& row = table.emplace_back();
      row.samples = dataset.parts[p].shards[s].samples;
      row.size = copies.emplace_back(copied(place)).size();
      if (place.file == nullptr || !place.file->mapped()) continue;
      const auto [at, added] = numbers.try_emplace(place.file.get(), files.size() + 1);
      if (added) files.push_back(place.file.get());
      row.file = at->second;
      row.at = place.entry;
    }
  }
  const std::string text = describe(dataset, files).dump();
  FlatHeader header;
  header.shards = table.size();
  header.json_offset = sizeof(FlatHeader) + table.size() * sizeof(FlatShard);
  header.json_size = text.size();
  header.size = aligned(header.json_offset + header.json_size);
  for (FlatShard& row : table) {
    if (row.file != 0) continue;
    row.at = header.size;
    header.size += aligned(row.size);
  }
  std::vector<std::uint64_t> flat(header.size / 8);
  auto* bytes = reinterpret_cast<std::byte*>(flat.data());
  std::memcpy(bytes, &header, sizeof header);
  if (!table.empty()) {
    std::memcpy(bytes + sizeof header, table.data(), table.size() * sizeof(FlatShard));
  }
  std::memcpy(bytes + header.json_offset, text.data(), text.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (copies[i].empty()) continue;
    std::memcpy(bytes + table[i].at, copies[i].data(), copies[i].size());
  }
  return flat;
}

FlatDataset unpack_dataset(Bytes& flat) {
  const auto* header = reinterpret_cast<const FlatHeader*>(flat.data());
  SHARDMILL_CHECK(flat.size() >= sizeof(FlatHeader) && header->magic == kFlatMagic &&
                  header->size <= flat.size());
  flat = flat.first(header->size);
  const std::span<const FlatShard> table{
      reinterpret_cast<const FlatShard*>(flat.data() + sizeof(FlatHeader)), header->shards};
  const char* text = reinterpret_cast<const char*>(flat.data()) + header->json_offset;
  const Json json = Json::parse(text, text + header->json_size);
  FlatDataset dataset;
  dataset.spec = from_hex(json.at("spec").get<std::string>());
  dataset.access = static_cast<Access>(json.at("access").get<int>());
  dataset.kind_reason = from_hex(json.at("kind_reason").get<std::string>());
  dataset.info.layout = from_hex(json.at("layout").get<std::string>());
  dataset.info.classes = from_hex_list(json.at("classes"));
  dataset.info.warnings = from_hex_list(json.at("warnings"));
  read_parts(json, flat, table, dataset);
  if (json.contains("manifest")) {
    dataset.manifest = parse_manifest(json.at("manifest").get<std::string>(), dataset.spec);
    dataset.rules = dataset.manifest->rules;
  }
  return dataset;
}

}  // namespace shardmill::internal
