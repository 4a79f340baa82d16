// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/library_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace shardmill::hdf5 {

namespace {

constexpr std::size_t kMinCacheBytes = 1 << 20;
constexpr std::size_t kMaxCacheBytes = 256 << 20;
constexpr std::size_t kCacheSlots = 521;

// The library's own cache of 1 MiB holds no chunk larger than itself, so that every row would
// decompress its whole chunk again.
std::size_t cache_bytes(const OpenDataset& dataset) {
  std::uint64_t chunk = H5Tget_size(dataset.type.get());
  for (const std::uint64_t extent : dataset.chunk) {
    if (__builtin_mul_overflow(chunk, extent, &chunk)) return kMaxCacheBytes;
  }
  std::uint64_t across = 1;  // chunks that one row touches
  for (std::size_t d = 1; d < dataset.chunk.size(); ++d) {
    across *= (dataset.dims[d] + dataset.chunk[d] - 1) / dataset.chunk[d];
    if (across > kMaxCacheBytes) return kMaxCacheBytes;
  }
  if (__builtin_mul_overflow(chunk, across, &chunk)) return kMaxCacheBytes;
  return std::clamp<std::uint64_t>(chunk, kMinCacheBytes, kMaxCacheBytes);
}

}  // namespace

LibraryRows::LibraryRows(const std::string& path, const std::string& name) : path_(path) {
  const Session session;
  file_ = open_for_reading(path);
  dataset_ = open_dataset(file_.get(), path, name);
  if (dataset_.layout == H5D_CHUNKED) {
    const PropertyHandle access(H5Pcreate(H5P_DATASET_ACCESS));
    H5Pset_chunk_cache(access.get(), kCacheSlots, cache_bytes(dataset_), 1.0);
    dataset_.dataset.close();
    dataset_.dataset = checked(DatasetHandle(H5Dopen2(file_.get(), name.c_str(), access.get())),
                               path, dataset_.place(), "cannot open the dataset");
  }
  if (dataset_.dims.empty() || (!dataset_.element && !is_byte_sequence(dataset_.type.get()))) {
    throw Error(ErrorCode::kDataLoss, path, dataset_.place(), "it is not what the index says",
                "build the index again");
  }
  if (dataset_.element) {
    memory_type_ = storage_type(dataset_.element->dtype);
    row_bytes_ = dtype_size(dataset_.element->dtype);
    for (std::size_t d = 1; d < dataset_.dims.size(); ++d) row_bytes_ *= dataset_.dims[d];
  } else {
    const TypeHandle base(H5Tget_super(dataset_.type.get()));
    memory_type_ = checked(TypeHandle(H5Tvlen_create(base.get())), path, dataset_.place(),
                           "cannot read the element type");
  }
}

LibraryRows::~LibraryRows() {
  const Session session;
  memory_type_.close();
  dataset_ = {};
  file_.close();
}

Bytes LibraryRows::read(std::uint64_t first, std::uint64_t count, Scratch& scratch) {
  const Session session;
  const std::uint64_t size = count * row_bytes_;
  std::byte* out = scratch.take(size);
  read_into(memory_type_.get(), first, count, out);
  return {out, size};
}

Bytes LibraryRows::read_sequence(std::uint64_t n, Scratch& scratch) {
  const Session session;
  SHARDMILL_CHECK(is_sequence());
  hvl_t value{};
  read_into(memory_type_.get(), n, 1, &value);
  std::byte* out = scratch.take(value.len);
  if (value.len > 0) std::memcpy(out, value.p, value.len);
  H5free_memory(value.p);
  return {out, value.len};
}

void LibraryRows::read_into(hid_t memory_type, std::uint64_t first, std::uint64_t count,
                            void* out) {
  std::vector<hsize_t> start(dataset_.dims.size(), 0);
  std::vector<hsize_t> extent(dataset_.dims.begin(), dataset_.dims.end());
  start[0] = first;
  extent[0] = count;
  const SpaceHandle rows(H5Dget_space(dataset_.dataset.get()));
  const SpaceHandle memory(
      H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr));
  if (!rows || !memory ||
      H5Sselect_hyperslab(rows.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(),
                          nullptr) < 0 ||
      H5Dread(dataset_.dataset.get(), memory_type, memory.get(), rows.get(), H5P_DEFAULT, out) <
          0) {
    fail_reading(path_, dataset_.place(), "cannot read row " + std::to_string(first));
  }
}

}  // namespace shardmill::hdf5
