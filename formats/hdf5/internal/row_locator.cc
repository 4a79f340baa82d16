// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/row_locator.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace shardmill::hdf5 {

namespace {

// Comparing with the library needs memory for a whole chunk; larger ones are left to it.
constexpr std::uint64_t kMaxComparedChunk = 64u << 20;
constexpr std::uint64_t kLargeChunk = 1u << 20;  // the library's own cache

}  // namespace

void RowLocator::damaged(const std::string& place, const std::string& cause) const {
  throw Error(ErrorCode::kDataLoss, path_, place, cause, "copy or convert the file again");
}

ExtentRecord RowLocator::library_extent(const OpenDataset& dataset, std::uint64_t row_bytes,
                                        const std::string& source) {
  if (dataset.elsewhere()) {
    throw Error(ErrorCode::kUnsupported, path_, dataset.place(),
                "its values lie in other files (external or virtual storage)",
                "copy them into one file");
  }
  ExtentRecord record;
  record.storage = Storage::kLibrary;
  record.rows = dataset.dims[0];
  record.row_bytes = row_bytes;
  record.path_at = index_.add_text(source);
  record.path_size = source.size();
  check_filters(dataset, path_);  // now, and not at the first read in a worker
  warn_of_large_chunks(dataset);
  return record;
}

ExtentRecord RowLocator::references(const OpenDataset& dataset) {
  ExtentRecord record = extent(dataset, kReferenceBytes, true);
  if (record.storage == Storage::kLibrary) record.row_bytes = 1;
  return record;
}

// Every row of such a chunk that is read alone unpacks all of them.
void RowLocator::warn_of_large_chunks(const OpenDataset& dataset) {
  if (dataset.filters.empty() || dataset.chunk.empty() || dataset.chunk[0] < 2) return;
  std::uint64_t bytes = H5Tget_size(dataset.type.get());
  for (const std::uint64_t extent : dataset.chunk) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return;
  }
  if (bytes <= kLargeChunk) return;
  const std::string text = dataset.place() + ": its filtered chunks hold " +
                           std::to_string(dataset.chunk[0]) + " rows, " + std::to_string(bytes) +
                           " bytes: in random order each row unpacks a chunk; shuffle in blocks, "
                           "or convert it";
  if (std::find(index_.warnings.begin(), index_.warnings.end(), text) == index_.warnings.end()) {
    index_.warnings.push_back(text);
  }
}

ArrayType RowLocator::row_of(const OpenDataset& dataset) {
  return {dataset.element->dtype, {dataset.dims.begin() + 1, dataset.dims.end()}};
}

ExtentRecord RowLocator::extent(const OpenDataset& dataset) {
  return extent(dataset, row_of(dataset).bytes(), dataset.element->exact);
}

ExtentRecord RowLocator::extent(const OpenDataset& dataset, std::uint64_t row_bytes, bool exact) {
  ExtentRecord record;
  record.rows = dataset.dims[0];
  record.row_bytes = row_bytes;
  std::uint64_t total = 0;
  if (__builtin_mul_overflow(record.rows, record.row_bytes, &total)) {
    damaged(dataset.place(), "absurd shape");
  }
  record.path_at = index_.add_text(dataset.name);
  record.path_size = dataset.name.size();
  const bool plain = exact && dataset.filters.empty() && !dataset.elsewhere();
  if (total == 0) {
    record.storage = Storage::kContiguous;  // nothing to find
    return record;
  }
  if (plain && dataset.layout == H5D_CONTIGUOUS && contiguous(dataset, total, record)) {
    return record;
  }
  if (plain && dataset.layout == H5D_CHUNKED && chunked(dataset, record)) return record;
  return library_extent(dataset, record.row_bytes, dataset.name);
}

bool RowLocator::contiguous(const OpenDataset& dataset, std::uint64_t total, ExtentRecord& record) {
  const haddr_t at = H5Dget_offset(dataset.dataset.get());
  // With a user block the library adds its size to "no address", too, which wraps around.
  if (at == HADDR_UNDEF || at < base_) return fill_values(dataset);
  if (at > bytes_.size() || total > bytes_.size() - at) {
    damaged(dataset.place(), "its values end at " + std::to_string(at + total) + ", the file at " +
                                 std::to_string(bytes_.size()) + " bytes");
  }
  record.storage = Storage::kContiguous;
  record.at = at;
  return true;
}

// Elements that were never written have the fill value. Our writers write all of them.
bool RowLocator::fill_values(const OpenDataset& dataset) const {
  if (index_.layout == Layout::kShardmill) {
    damaged(dataset.place(), "some of its values are not in the file");
  }
  return false;
}

bool RowLocator::chunked(const OpenDataset& dataset, ExtentRecord& record) {
  if (!std::equal(dataset.dims.begin() + 1, dataset.dims.end(), dataset.chunk.begin() + 1)) {
    return false;  // rows are cut into pieces
  }
  ChunkGrid grid;
  grid.base = base_;
  grid.rank = static_cast<unsigned>(dataset.dims.size());
  grid.chunk_rows = dataset.chunk[0];
  if (grid.chunk_rows == 0 ||
      __builtin_mul_overflow(grid.chunk_rows, record.row_bytes, &grid.chunk_bytes) ||
      grid.chunk_bytes > kMaxComparedChunk) {
    return false;
  }
  grid.chunks = (record.rows - 1) / grid.chunk_rows + 1;
  H5O_info_t info{};
  if (H5Oget_info(dataset.dataset.get(), &info) < 0) {
    fail_reading(path_, dataset.place(), "cannot read the object's header");
  }
  const auto table = read_chunk_table(bytes_, info.addr, grid, dataset.place());
  if (!table) return false;
  if (std::find(table->begin(), table->end(), kNoChunk) != table->end()) {
    return fill_values(dataset);
  }
  compare(dataset, grid, *table);
  record.storage = Storage::kChunked;
  record.chunk_rows = grid.chunk_rows;
  record.at = index_.words.size();
  index_.words.insert(index_.words.end(), table->begin(), table->end());
  return true;
}

// The library must find the same bytes in the first, the middle and the last chunk.
void RowLocator::compare(const OpenDataset& dataset, const ChunkGrid& grid,
                         const std::vector<std::uint64_t>& table) {
  std::vector<std::byte> theirs(grid.chunk_bytes);
  for (const std::size_t i : {std::size_t{0}, table.size() / 2, table.size() - 1}) {
    std::array<hsize_t, H5S_MAX_RANK> offset{};
    offset[0] = i * grid.chunk_rows;
    std::uint32_t mask = 0;
    hsize_t stored = 0;
    if (H5Dget_chunk_storage_size(dataset.dataset.get(), offset.data(), &stored) < 0 ||
        stored != grid.chunk_bytes) {
      damaged(dataset.place(), "chunk of unexpected size");
    }
    if (H5Dread_chunk(dataset.dataset.get(), H5P_DEFAULT, offset.data(), &mask, theirs.data()) <
        0) {
      fail_reading(path_, dataset.place(), "cannot read a chunk");
    }
    bytes_.release();
    const Bytes ours = bytes_.bytes(table[i], grid.chunk_bytes);
    if (std::memcmp(ours.data(), theirs.data(), ours.size()) != 0) {
      damaged(dataset.place(), "chunk " + std::to_string(i) + " is not where its address says");
    }
  }
}

}  // namespace shardmill::hdf5
