// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/describe.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "formats/hdf5/internal/catalog.h"
#include "formats/hdf5/internal/row_type.h"
#include "formats/hdf5/internal/value_hash.h"

namespace shardmill::hdf5 {

namespace {

using Json = nlohmann::ordered_json;

const char* layout_name(H5D_layout_t layout) {
  switch (layout) {
    case H5D_COMPACT:
      return "compact";
    case H5D_CONTIGUOUS:
      return "contiguous";
    case H5D_CHUNKED:
      return "chunked";
    case H5D_VIRTUAL:
      return "virtual";
    default:
      return "unknown";
  }
}

Json describe_dataset(const OpenDataset& dataset) {
  Json out;
  out["path"] = escape(dataset.name);
  out["dtype"] = escape(type_name(dataset.type.get()));
  out["shape"] = dataset.null_space ? Json() : Json(dataset.dims);
  out["chunks"] = dataset.chunk.empty() ? Json() : Json(dataset.chunk);
  Json filters = Json::array();
  for (const std::string& filter : dataset.filters) filters.push_back(escape(filter));
  out["filters"] = std::move(filters);
  out["layout"] = dataset.external ? "external" : layout_name(dataset.layout);
  return out;
}

// Adds the sums of a dataset's values to its description, or says why there are none.
void add_sums(const OpenDataset& dataset, const std::string& path, Json& entry, Json& warnings) {
  const auto add = [&](const ValueSum& sum, Json& target, const std::string& what) {
    if (!sum.sha256.empty()) {
      target["sha256"] = sum.sha256;
    } else {
      warnings.push_back(dataset.place() + ": " + what + sum.reason);
    }
  };
  if (H5Tget_class(dataset.type.get()) != H5T_COMPOUND || dataset.element) {
    add(hash_values(dataset, path), entry, "");
    return;
  }
  Json fields = Json::array();
  for (const std::string& name : member_names(dataset.type.get())) {
    Json field = {{"name", escape(name)}};
    add(hash_values(dataset, path, name), field, "field \"" + escape(name) + "\": ");
    fields.push_back(std::move(field));
  }
  entry["fields"] = std::move(fields);
}

}  // namespace

std::string describe(const std::string& path, bool hash) {
  const Session session;
  const FileHandle file = open_for_reading(path);
  const Catalog catalog = list_datasets(file.get(), path);
  Json warnings = catalog.warnings;
  Json datasets = Json::array();
  for (const std::string& name : catalog.datasets) {
    const OpenDataset dataset = open_dataset(file.get(), path, name);
    Json entry = describe_dataset(dataset);
    if (hash && !dataset.null_space) add_sums(dataset, path, entry, warnings);
    datasets.push_back(std::move(entry));
  }
  Json out;
  out["format"] = "hdf5";
  out["datasets"] = std::move(datasets);
  out["warnings"] = std::move(warnings);
  return out.dump();
}

}  // namespace shardmill::hdf5
