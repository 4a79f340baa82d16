// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/chunk_unpacker.h"

#include <algorithm>
#include <array>
#include <utility>

namespace shardmill::hdf5 {

std::unique_ptr<ChunkUnpacker> ChunkUnpacker::of(const OpenDataset& dataset,
                                                 std::uint64_t row_bytes) {
  auto filters = ChunkFilters::of(dataset);
  if (filters == nullptr || row_bytes == 0 ||
      !std::equal(dataset.dims.begin() + 1, dataset.dims.end(), dataset.chunk.begin() + 1)) {
    return nullptr;
  }
  auto out = std::make_unique<ChunkUnpacker>();
  out->filters_ = std::move(filters);
  out->row_bytes_ = row_bytes;
  out->chunk_rows_ = dataset.chunk[0];
  return out;
}

Bytes ChunkUnpacker::rows(const OpenDataset& dataset, const std::string& path, std::uint64_t first,
                          std::uint64_t count) {
  const std::uint64_t chunk = first / chunk_rows_;
  if (count == 0 || (first + count - 1) / chunk_rows_ != chunk) return {};
  if (chunk != current_) {
    std::array<hsize_t, H5S_MAX_RANK> offset{};
    offset[0] = chunk * chunk_rows_;
    current_ = ~std::uint64_t{0};
    unpacked_ = filters_->read(dataset, path, offset.data());
    if (unpacked_.empty()) return {};
    current_ = chunk;
  }
  return unpacked_.subspan(first % chunk_rows_ * row_bytes_, count * row_bytes_);
}

}  // namespace shardmill::hdf5
