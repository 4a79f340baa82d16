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

LibraryRows::LibraryRows(const std::string& path, std::string_view name) : path_(path) {
  const Session session;
  const std::string dataset(name.substr(0, name.find('\0')));
  file_ = open_for_reading(path);
  dataset_ = open_dataset(file_.get(), path, dataset);
  if (dataset_.layout == H5D_CHUNKED) {
    const PropertyHandle access(H5Pcreate(H5P_DATASET_ACCESS));
    H5Pset_chunk_cache(access.get(), kCacheSlots, cache_bytes(dataset_), 1.0);
    dataset_.dataset.close();
    dataset_.dataset = checked(DatasetHandle(H5Dopen2(file_.get(), dataset.c_str(), access.get())),
                               path, dataset_.place(), "cannot open the dataset");
  }
  std::vector<std::string> members;
  TypeHandle type(H5Tcopy(dataset_.type.get()));
  for (std::size_t at = name.find('\0'); at != std::string_view::npos;) {
    const std::size_t end = name.find('\0', at + 1);
    members.emplace_back(name.substr(at + 1, end - at - 1));
    type = member_type(type.get(), members.back());
    at = end;
  }
  if (type) type_ = row_type_of(type.get());
  if (dataset_.dims.empty() || type_.kind == RowKind::kNone) {
    throw Error(ErrorCode::kDataLoss, path, dataset_.place(), "it is not what the index says",
                "build the index again");
  }
  memory_type_ = checked(member_in_memory(members, type_.memory), path, dataset_.place(),
                         "cannot read the element type");
  row_bytes_ = type_.bytes;
  for (std::size_t d = 1; d < dataset_.dims.size(); ++d) row_bytes_ *= dataset_.dims[d];
  if (type_.exact && members.empty()) unpacker_ = ChunkUnpacker::of(dataset_, row_bytes_);
  checked_ = CheckedChunks::of(dataset_);
}

LibraryRows::~LibraryRows() {
  const Session session;
  memory_type_.close();
  type_ = {};
  dataset_ = {};
  file_.close();
}

Bytes LibraryRows::read(std::uint64_t first, std::uint64_t count, Scratch& scratch) {
  const Session session;
  if (unpacker_ != nullptr) {
    const Bytes rows = unpacker_->rows(dataset_, path_, first, count);
    if (!rows.empty()) return rows;
  }
  const std::uint64_t size = count * row_bytes_;
  std::byte* out = scratch.take(size);
  // The library leaves the place of values alone that were never written and have no fill value.
  if (size > 0) std::memset(out, 0, size);
  read_into(memory_type_.get(), first, count, out);
  return {out, size};
}

Bytes LibraryRows::read_sequence(std::uint64_t n, Scratch& scratch) {
  const Session session;
  SHARDMILL_CHECK(is_sequence());
  if (type_.kind == RowKind::kText) {
    char* text = nullptr;
    read_into(memory_type_.get(), n, 1, &text);
    const std::size_t size = text != nullptr ? std::strlen(text) : 0;
    std::byte* out = scratch.take(size);
    if (size > 0) std::memcpy(out, text, size);
    H5free_memory(text);
    return {out, size};
  }
  hvl_t value{};
  read_into(memory_type_.get(), n, 1, &value);
  std::string header;
  std::size_t size = value.len;
  if (type_.kind == RowKind::kNumberSequence) {
    header = npy_header({type_.dtype, {value.len}});
    size *= dtype_size(type_.dtype);
  }
  std::byte* out = scratch.take(header.size() + size);
  if (!header.empty()) std::memcpy(out, header.data(), header.size());
  if (size > 0) std::memcpy(out + header.size(), value.p, size);
  H5free_memory(value.p);
  return {out, header.size() + size};
}

void LibraryRows::read_into(hid_t memory_type, std::uint64_t first, std::uint64_t count,
                            void* out) {
  if (checked_ != nullptr) checked_->check_rows(dataset_, path_, first, count);
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
