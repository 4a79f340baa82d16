// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/shared.h"

#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

namespace shardmill::internal {

namespace {

using Json = nlohmann::json;

struct IndexHeader {
  std::uint64_t json_size = 0;
  std::uint64_t flat_offset = 0;
  std::uint64_t flat_size = 0;
};

// Functions cannot travel, nor need they: the outputs that have one were declared before the fork.
std::string outputs_to_json(const std::vector<Output>& outputs) {
  Json list = Json::array();
  for (const Output& output : outputs) {
    list.push_back({{"name", output.name},
                    {"kind", static_cast<int>(output.kind)},
                    {"field", output.field},
                    {"dtype", static_cast<int>(output.row.dtype)},
                    {"shape", output.row.shape}});
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
  }
}

}  // namespace

Shared make_shared_state(std::string spec, LoaderOptions options) {
  Shared shared;
  shared.control_file = MemoryFile("shardmill-control", ControlView::bytes(options.batch_size));
  shared.control = ControlView(shared.control_file.data(), options.batch_size);
  shared.stats_file = MemoryFile("shardmill-stats", sizeof(StatsFile));
  shared.stats().magic = StatsFile::kMagic;
  shared.stats().version = 1;
  shared.stats().pid = getpid();
  shared.index = MemoryFile("shardmill-index", 0);
  shared.ring = std::make_shared<Ring>();
  shared.spec = std::move(spec);
  shared.options = std::move(options);
  return shared;
}

void write_index(Shared& shared, const Dataset& dataset) {
  const std::string json = outputs_to_json(shared.options.outputs);
  IndexHeader header;
  header.json_size = json.size();
  header.flat_offset = (sizeof header + json.size() + 7) / 8 * 8;
  header.flat_size = dataset.flat().size();
  shared.index.resize(header.flat_offset + header.flat_size);
  std::byte* const data = shared.index.data();
  std::memcpy(data, &header, sizeof header);
  std::memcpy(data + sizeof header, json.data(), json.size());
  std::memcpy(data + header.flat_offset, dataset.flat().data(), header.flat_size);
}

void attach_index(Shared& shared) {
  shared.index.remap();
  const std::byte* const data = shared.index.data();
  IndexHeader header;
  std::memcpy(&header, data, sizeof header);
  outputs_from_json({reinterpret_cast<const char*>(data) + sizeof header, header.json_size},
                    shared.options.outputs);
  shared.dataset = Dataset::attach({data + header.flat_offset, header.flat_size});
}

}  // namespace shardmill::internal
