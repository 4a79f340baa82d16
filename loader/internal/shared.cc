// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/shared.h"

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

namespace shardmill::internal {

namespace {

using Json = nlohmann::json;

// At the beginning of the index file; then the JSON text, then for each dataset the size of its
// flat form and, at a multiple of 8, that form.
struct IndexHeader {
  std::uint64_t json_size = 0;
  std::uint64_t datasets = 0;
};

constexpr std::uint64_t up_to_8(std::uint64_t n) { return (n + 7) / 8 * 8; }

// What the scout found out; all else was declared before the fork, functions for one.
std::string outputs_to_json(const std::vector<Output>& outputs) {
  Json list = Json::array();
  for (const Output& output : outputs) {
    list.push_back({{"name", output.name},
                    {"kind", static_cast<int>(output.kind)},
                    {"field", output.field},
                    {"dtype", static_cast<int>(output.row.dtype)},
                    {"shape", output.row.shape},
                    {"like", output.like}});
  }
  return list.dump(-1, ' ', true, Json::error_handler_t::replace);
}

void outputs_from_json(std::string_view text, std::vector<Output>& outputs) {
  const Json list = Json::parse(text);
  outputs.resize(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    outputs[i].name = list[i].at("name").get<std::string>();
    outputs[i].kind = static_cast<OutputKind>(list[i].at("kind").get<int>());
    outputs[i].field = list[i].at("field").get<std::string>();
    outputs[i].row = {static_cast<DType>(list[i].at("dtype").get<int>()),
                      list[i].at("shape").get<std::vector<std::uint64_t>>()};
    outputs[i].like = list[i].at("like").get<std::string>();
  }
}

// Fills in what the statistics file says once and for all.
void describe_loader(Shared& shared) {
  StatsFile& stats = shared.stats();
  stats.version = StatsFile::kVersion;
  stats.pid = getpid();
  stats.start_ns =
      static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  const std::string spec = shared.spec();
  spec.copy(stats.dataset, sizeof stats.dataset - 1);
  stats.batch_size = static_cast<std::uint32_t>(shared.options.batch_size);
  stats.rank = static_cast<std::uint32_t>(shared.options.rank);
  stats.world_size = static_cast<std::uint32_t>(shared.options.world_size);
  stats.prefetch = static_cast<std::uint32_t>(shared.options.prefetch);
  stats.decode = static_cast<std::uint32_t>(shared.options.decode);
  stats.magic = StatsFile::kMagic;
}

}  // namespace

Shared make_shared_state(std::vector<std::string> specs, LoaderOptions options) {
  Shared shared;
  shared.control_file = MemoryFile("shardmill-control", ControlView::bytes(options.batch_size));
  shared.control = ControlView(shared.control_file.data(), options.batch_size);
  shared.stats_file = MemoryFile("shardmill-stats", sizeof(StatsFile));
  shared.index = MemoryFile("shardmill-index", 0);
  shared.ring = std::make_shared<Ring>();
  shared.specs = std::move(specs);
  shared.options = std::move(options);
  describe_loader(shared);
  return shared;
}

std::string Shared::spec() const {
  std::string text;
  for (const std::string& spec : specs) text += (text.empty() ? "" : ", ") + spec;
  return text;
}

Corpus open_corpus(const Shared& shared) {
  if (!shared.corpus.empty()) return shared.corpus;
  std::vector<Dataset> datasets;
  for (const std::string& spec : shared.specs) {
    datasets.push_back(Dataset::open(spec, shared.options.access));
  }
  return Corpus(std::move(datasets));
}

void write_index(Shared& shared, const Corpus& corpus) {
  const std::string json = outputs_to_json(shared.options.outputs);
  const IndexHeader header{json.size(), corpus.datasets().size()};
  std::uint64_t size = up_to_8(sizeof header + json.size());
  for (const Dataset& dataset : corpus.datasets()) {
    size += sizeof(std::uint64_t) + up_to_8(dataset.flat().size());
  }
  shared.index.resize(size);
  std::byte* at = shared.index.data();
  std::memcpy(at, &header, sizeof header);
  std::memcpy(at + sizeof header, json.data(), json.size());
  at += up_to_8(sizeof header + json.size());
  for (const Dataset& dataset : corpus.datasets()) {
    const std::span<const std::byte> flat = dataset.flat();
    const std::uint64_t bytes = flat.size();
    std::memcpy(at, &bytes, sizeof bytes);
    std::memcpy(at + sizeof bytes, flat.data(), flat.size());
    at += sizeof bytes + up_to_8(bytes);
  }
}

void attach_index(Shared& shared) {
  shared.index.remap();
  const std::byte* at = shared.index.data();
  IndexHeader header;
  std::memcpy(&header, at, sizeof header);
  outputs_from_json({reinterpret_cast<const char*>(at) + sizeof header, header.json_size},
                    shared.options.outputs);
  at += up_to_8(sizeof header + header.json_size);
  std::vector<Dataset> datasets;
  for (std::uint64_t i = 0; i < header.datasets; ++i) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, at, sizeof bytes);
    datasets.push_back(Dataset::attach({at + sizeof bytes, bytes}));
    at += sizeof bytes + up_to_8(bytes);
  }
  shared.corpus = Corpus(std::move(datasets));
}

}  // namespace shardmill::internal
