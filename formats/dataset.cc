// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/dataset.h>
#include <shardmill/formats/error.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "formats/internal/dataset_spec.h"

namespace shardmill {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kFlatMagic = 0x31304C464D485321;  // "!SHMFL01"

struct FlatHeader {
  std::uint64_t magic = kFlatMagic;
  std::uint64_t size = 0;
  std::uint64_t json_offset = 0;
  std::uint64_t json_size = 0;
  std::uint64_t shards = 0;
};

struct FlatShard {
  std::uint64_t samples = 0;
  std::uint64_t index_offset = 0;
  std::uint64_t index_size = 0;
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

// Says what is wrong between a shard and its line in the manifest.
void check_against_manifest(const ManifestShard& listed, const fs::path& path, const Format& format,
                            std::uint64_t samples) {
  const fs::path file = format.data_file(path);
  std::error_code error;
  const std::uint64_t size = file.empty() ? 0 : fs::file_size(file, error);
  std::string cause;
  if (listed.filesize != 0 && !file.empty() && !error && size != listed.filesize) {
    cause = "has " + std::to_string(size) + " bytes, its manifest says " +
            std::to_string(listed.filesize);
  } else if (samples != listed.samples) {
    cause = "holds " + std::to_string(samples) + " samples, its manifest says " +
            std::to_string(listed.samples);
  }
  if (cause.empty()) return;
  throw Error(ErrorCode::kDataLoss, path.string(), {}, cause,
              "copy or convert this shard again, and check with shardmill verify");
}

}  // namespace

struct Dataset::State {
  std::vector<std::uint64_t> owned;  // the flat bytes, unless they are borrowed
  std::span<const std::byte> flat;
  std::span<const FlatShard> table;
  std::uint64_t size = 0;
  std::string spec;
  const Format* format = nullptr;
  Access access = Access::kAuto;
  std::vector<DatasetShard> shards;
  std::vector<std::string> classes;
  std::optional<Manifest> manifest;
  std::string kind_reason;
  ShardInfo info;

  void parse();
};

// Fills everything else from `flat`.
void Dataset::State::parse() {
  const auto* header = reinterpret_cast<const FlatHeader*>(flat.data());
  SHARDMILL_CHECK(flat.size() >= sizeof(FlatHeader) && header->magic == kFlatMagic &&
                  header->size <= flat.size());
  flat = flat.first(header->size);
  table = {reinterpret_cast<const FlatShard*>(flat.data() + sizeof(FlatHeader)), header->shards};
  const char* text = reinterpret_cast<const char*>(flat.data()) + header->json_offset;
  const Json json = Json::parse(text, text + header->json_size);
  spec = from_hex(json.at("spec").get<std::string>());
  format = &find_format(json.at("format").get<std::string>());
  access = static_cast<Access>(json.at("access").get<int>());
  classes = from_hex_list(json.at("classes"));
  kind_reason = json.at("kind_reason").get<std::string>();
  info.layout = json.at("layout").get<std::string>();
  info.classes = classes;
  info.warnings = from_hex_list(json.at("warnings"));
  const std::vector<std::string> paths = from_hex_list(json.at("paths"));
  for (std::size_t s = 0; s < paths.size(); ++s) {
    shards.push_back({paths[s], size, table[s].samples});
    size += table[s].samples;
  }
  if (json.contains("manifest")) {
    manifest = parse_manifest(json.at("manifest").get<std::string>(), spec);
  }
}

Dataset Dataset::open(std::string_view spec, Access access) {
  const internal::ResolvedSpec resolved = internal::resolve_spec(spec);
  const Format& format = *resolved.format;
  std::vector<std::vector<std::byte>> indices;
  std::vector<FlatShard> table;
  std::vector<std::string> warnings;
  std::vector<std::string> classes;
  std::string layout;
  for (std::size_t s = 0; s < resolved.shards.size(); ++s) {
    const fs::path& path = resolved.shards[s];
    indices.push_back(format.build_index(path, access));
    const auto reader = format.open(path, indices.back(), access);
    table.push_back({reader->size(), 0, indices.back().size()});
    if (resolved.manifest) {
      check_against_manifest(resolved.manifest->shards[s], path, format, reader->size());
    }
    const ShardInfo& info = reader->info();
    if (s == 0) {
      classes = info.classes;
      layout = info.layout;
    }
    for (const std::string& warning : info.warnings) {
      warnings.push_back(escape(path.filename().string()) + ": " + warning);
    }
  }
  if (resolved.manifest && !resolved.manifest->classes.empty()) {
    classes = resolved.manifest->classes;
  }
  for (const std::string& warning : resolved.warnings) warnings.push_back(warning);

  Json json = {{"spec", to_hex(spec)},
               {"format", format.name()},
               {"access", static_cast<int>(access)},
               {"classes", to_hex(classes)},
               {"kind_reason", escape(resolved.reason)},
               {"layout", layout},
               {"warnings", to_hex(warnings)},
               {"paths", Json::array()}};
  for (const fs::path& path : resolved.shards) json["paths"].push_back(to_hex(path.string()));
  if (resolved.manifest) json["manifest"] = manifest_text(*resolved.manifest);
  const std::string text = json.dump();

  FlatHeader header;
  header.shards = table.size();
  header.json_offset = sizeof(FlatHeader) + table.size() * sizeof(FlatShard);
  header.json_size = text.size();
  header.size = aligned(header.json_offset + header.json_size);
  for (FlatShard& shard : table) {
    shard.index_offset = header.size;
    header.size += aligned(shard.index_size);
  }
  auto state = std::make_shared<State>();
  state->owned.resize(header.size / 8);
  auto* bytes = reinterpret_cast<std::byte*>(state->owned.data());
  std::memcpy(bytes, &header, sizeof header);
  if (!table.empty()) {
    std::memcpy(bytes + sizeof header, table.data(), table.size() * sizeof(FlatShard));
  }
  std::memcpy(bytes + header.json_offset, text.data(), text.size());
  for (std::size_t s = 0; s < table.size(); ++s) {
    std::memcpy(bytes + table[s].index_offset, indices[s].data(), indices[s].size());
    indices[s] = {};
  }
  state->flat = {bytes, header.size};
  state->parse();
  return Dataset(std::move(state));
}

Dataset Dataset::attach(std::span<const std::byte> flat) {
  auto state = std::make_shared<State>();
  state->flat = flat;
  state->parse();
  return Dataset(std::move(state));
}

std::span<const std::byte> Dataset::flat() const noexcept { return state_->flat; }
std::uint64_t Dataset::size() const noexcept { return state_->size; }
const std::string& Dataset::spec() const noexcept { return state_->spec; }
const Format& Dataset::format() const noexcept { return *state_->format; }
Access Dataset::access() const noexcept { return state_->access; }
const std::vector<DatasetShard>& Dataset::shards() const noexcept { return state_->shards; }
const std::vector<std::string>& Dataset::classes() const noexcept { return state_->classes; }
const std::optional<Manifest>& Dataset::manifest() const noexcept { return state_->manifest; }
const std::string& Dataset::kind_reason() const noexcept { return state_->kind_reason; }
const ShardInfo& Dataset::info() const noexcept { return state_->info; }

std::span<const std::byte> Dataset::shard_index(std::size_t s) const noexcept {
  const FlatShard& shard = state_->table[s];
  return state_->flat.subspan(shard.index_offset, shard.index_size);
}

std::size_t Dataset::shard_of(std::uint64_t n) const noexcept {
  const auto& shards = state_->shards;
  const auto after = std::upper_bound(
      shards.begin(), shards.end(), n,
      [](std::uint64_t value, const DatasetShard& shard) { return value < shard.first; });
  // Empty shards begin where their successor does: the last one that begins at or before n.
  return static_cast<std::size_t>(after - shards.begin()) - 1;
}

DatasetReader::DatasetReader(Dataset dataset)
    : dataset_(std::move(dataset)), readers_(dataset_.shards().size()) {}

Reader& DatasetReader::shard_reader(std::size_t s) {
  if (!readers_[s]) {
    readers_[s] = dataset_.format().open(dataset_.shards()[s].path, dataset_.shard_index(s),
                                         dataset_.access());
  }
  return *readers_[s];
}

void DatasetReader::read(std::uint64_t n, SampleView& out) {
  const std::size_t s = dataset_.shard_of(n);
  shard_reader(s).read(n - dataset_.shards()[s].first, out);
}

void DatasetReader::peek(std::uint64_t n, SampleView& out) {
  const std::size_t s = dataset_.shard_of(n);
  shard_reader(s).peek(n - dataset_.shards()[s].first, out);
}

void DatasetReader::will_need(std::uint64_t n) noexcept {
  const std::size_t s = dataset_.shard_of(n);
  if (readers_[s]) readers_[s]->will_need(n - dataset_.shards()[s].first);
}

}  // namespace shardmill
