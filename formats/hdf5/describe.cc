// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/describe.h"

#include <shardmill/formats/digest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "formats/hdf5/internal/catalog.h"

namespace shardmill::hdf5 {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kPieceBytes = 8 << 20;
// Shapes are only numbers: sparse datasets can claim more than any disk holds.
constexpr std::uint64_t kMaxHashedBytes = std::uint64_t{1} << 42;
constexpr std::uint64_t kMaxSparseRatio = 1 << 16;

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

// How the values of a dataset are read for their hash.
struct Values {
  TypeHandle memory_type;
  std::uint64_t element_bytes = 0;
  bool strings = false;  ///< Variable-length: char* in memory.
};

// The base numbers of arrays, enumerations and bit fields are hashed like plain numbers.
TypeHandle memory_type_of(hid_t type) {
  if (const auto element = element_of(type)) return storage_type(element->dtype);
  switch (H5Tget_class(type)) {
    case H5T_ENUM:
      return TypeHandle(H5Tget_native_type(type, H5T_DIR_ASCEND));
    case H5T_INTEGER:
    case H5T_FLOAT:
    case H5T_BITFIELD: {
      TypeHandle copy(H5Tcopy(type));
      H5Tset_order(copy.get(), H5T_ORDER_LE);
      return copy;
    }
    case H5T_STRING:
    case H5T_OPAQUE:
      return TypeHandle(H5Tcopy(type));
    case H5T_ARRAY: {
      const TypeHandle base(H5Tget_super(type));
      if (!element_of(base.get())) return {};
      const TypeHandle memory = memory_type_of(base.get());
      hsize_t dims[H5S_MAX_RANK];
      const int rank = H5Tget_array_dims2(type, dims);
      return rank < 0
                 ? TypeHandle()
                 : TypeHandle(H5Tarray_create2(memory.get(), static_cast<unsigned>(rank), dims));
    }
    default:
      return {};
  }
}

class Hasher {
 public:
  Hasher(const OpenDataset& dataset, const std::string& path) : dataset_(dataset), path_(path) {}

  // Returns the sum, or why there is none.
  bool hash(std::string& sum, std::string& reason) {
    if (dataset_.elsewhere()) {
      reason = "its values lie in other files and are not hashed";
      return false;
    }
    values_.memory_type = memory_type_of(dataset_.type.get());
    if (!values_.memory_type) {
      reason = "values of type " + type_name(dataset_.type.get()) + " are not hashed";
      return false;
    }
    values_.strings = H5Tget_class(dataset_.type.get()) == H5T_STRING;
    variable_ = values_.strings && H5Tis_variable_str(dataset_.type.get()) > 0;
    values_.element_bytes = H5Tget_size(values_.memory_type.get());
    std::uint64_t total = values_.element_bytes;
    for (const std::uint64_t extent : dataset_.dims) {
      if (__builtin_mul_overflow(total, extent, &total)) total = kMaxHashedBytes;
    }
    const hsize_t stored = H5Dget_storage_size(dataset_.dataset.get());
    if (total >= kMaxHashedBytes || total / kMaxSparseRatio > stored + kPieceBytes) {
      reason = "its " + std::to_string(total) + " bytes of values are hardly stored and not hashed";
      return false;
    }
    if (total > 0) {
      check_filters(dataset_, path_);
      read_all();
    }
    sum = sha_.hex();
    return true;
  }

 private:
  void read_all() {
    if (dataset_.dims.empty()) {
      read_piece({}, {}, 1);
      return;
    }
    // Rows of the first dimension that fit a piece; a larger row is cut along the next one.
    std::vector<hsize_t> start(dataset_.dims.size(), 0);
    cut(0, start);
  }

  void cut(std::size_t axis, std::vector<hsize_t>& start) {
    std::uint64_t row = values_.element_bytes;
    for (std::size_t d = axis + 1; d < dataset_.dims.size(); ++d) row *= dataset_.dims[d];
    std::vector<hsize_t> count(dataset_.dims.begin(), dataset_.dims.end());
    std::fill_n(count.begin(), axis, 1);
    if (row > kPieceBytes && axis + 1 < dataset_.dims.size()) {
      for (start[axis] = 0; start[axis] < dataset_.dims[axis]; ++start[axis]) cut(axis + 1, start);
      start[axis] = 0;
      return;
    }
    const std::uint64_t step = std::max<std::uint64_t>(1, kPieceBytes / row);
    for (start[axis] = 0; start[axis] < dataset_.dims[axis]; start[axis] += step) {
      count[axis] = std::min<std::uint64_t>(step, dataset_.dims[axis] - start[axis]);
      read_piece(start, count, count[axis] * (row / values_.element_bytes));
    }
    start[axis] = 0;
  }

  void read_piece(const std::vector<hsize_t>& start, const std::vector<hsize_t>& count,
                  std::uint64_t elements) {
    buffer_.assign(elements * values_.element_bytes, std::byte{0});
    SpaceHandle file_space(H5Dget_space(dataset_.dataset.get()));
    SpaceHandle memory_space(
        start.empty() ? H5Screate(H5S_SCALAR)
                      : H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr));
    if ((!start.empty() && H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(),
                                               nullptr, count.data(), nullptr) < 0) ||
        H5Dread(dataset_.dataset.get(), values_.memory_type.get(), memory_space.get(),
                file_space.get(), H5P_DEFAULT, buffer_.data()) < 0) {
      fail_reading(path_, dataset_.place(), "cannot read its values");
    }
    if (!values_.strings) {
      sha_.update(buffer_);
      return;
    }
    for (std::uint64_t i = 0; i < elements; ++i) add_string(i);
    if (variable_) {
      H5Dvlen_reclaim(values_.memory_type.get(), memory_space.get(), H5P_DEFAULT, buffer_.data());
    }
  }

  // Strings are joined by NUL, without the padding of fixed-length ones.
  void add_string(std::uint64_t i) {
    const std::byte* at = buffer_.data() + i * values_.element_bytes;
    std::string_view text;
    if (variable_) {
      const char* pointer = nullptr;
      std::memcpy(&pointer, at, sizeof pointer);
      if (pointer != nullptr) text = pointer;
    } else {
      text = {reinterpret_cast<const char*>(at), values_.element_bytes};
      const bool space_padded = H5Tget_strpad(dataset_.type.get()) == H5T_STR_SPACEPAD;
      const char pad = space_padded ? ' ' : '\0';
      if (H5Tget_strpad(dataset_.type.get()) == H5T_STR_NULLTERM) {
        text = text.substr(0, text.find('\0'));
      }
      while (!text.empty() && text.back() == pad) text.remove_suffix(1);
    }
    if (std::exchange(any_, true)) sha_.update(as_bytes(std::string_view("\0", 1)));
    sha_.update(as_bytes(text));
  }

  const OpenDataset& dataset_;
  const std::string& path_;
  Values values_;
  bool variable_ = false;
  bool any_ = false;
  Sha256 sha_;
  std::vector<std::byte> buffer_;
};

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
    if (hash && !dataset.null_space) {
      std::string sum;
      std::string reason;
      if (Hasher(dataset, path).hash(sum, reason)) {
        entry["sha256"] = sum;
      } else {
        warnings.push_back(dataset.place() + ": " + reason);
      }
    }
    datasets.push_back(std::move(entry));
  }
  Json out;
  out["format"] = "hdf5";
  out["datasets"] = std::move(datasets);
  out["warnings"] = std::move(warnings);
  return out.dump();
}

}  // namespace shardmill::hdf5
