// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/chunk_unpacker.h"

#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace shardmill::hdf5 {

namespace {

constexpr std::uint64_t kMaxChunkBytes = 256u << 20;

// True for deflate, or shuffle and then deflate.
bool understood(hid_t list, bool& shuffled) {
  const int filters = H5Pget_nfilters(list);
  if (filters < 1 || filters > 2) return false;
  const auto filter = [list](int i) {
    unsigned flags = 0;
    unsigned config = 0;
    std::size_t values = 0;
    return H5Pget_filter2(list, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr,
                          &config);
  };
  shuffled = filters == 2;
  return filter(filters - 1) == H5Z_FILTER_DEFLATE &&
         (!shuffled || filter(0) == H5Z_FILTER_SHUFFLE);
}

// Brings the first bytes of all elements, then all second ones … together again.
void unshuffle(const std::byte* in, std::size_t size, std::size_t element, std::byte* out) {
  const std::size_t count = size / element;
  for (std::size_t i = 0; i < element; ++i) {
    const std::byte* from = in + i * count;
    std::byte* to = out + i;
    for (std::size_t n = 0; n < count; ++n, to += element) *to = from[n];
  }
  std::memcpy(out + count * element, in + count * element, size - count * element);
}

}  // namespace

std::unique_ptr<ChunkUnpacker> ChunkUnpacker::of(const OpenDataset& dataset,
                                                 std::uint64_t row_bytes) {
  if (dataset.layout != H5D_CHUNKED || dataset.chunk.empty() || row_bytes == 0 ||
      !std::equal(dataset.dims.begin() + 1, dataset.dims.end(), dataset.chunk.begin() + 1)) {
    return nullptr;
  }
  const PropertyHandle list(H5Dget_create_plist(dataset.dataset.get()));
  unsigned options = 0;
  bool shuffled = false;
  std::uint64_t bytes = 0;
  if (!list || H5Pget_chunk_opts(list.get(), &options) < 0 || options != 0 ||
      !understood(list.get(), shuffled) ||
      __builtin_mul_overflow(dataset.chunk[0], row_bytes, &bytes) || bytes > kMaxChunkBytes) {
    return nullptr;
  }
  std::unique_ptr<ChunkUnpacker> out(new ChunkUnpacker);
  out->row_bytes_ = row_bytes;
  out->chunk_rows_ = dataset.chunk[0];
  out->element_bytes_ = H5Tget_size(dataset.type.get());
  out->shuffled_ = shuffled && out->element_bytes_ > 1;
  out->inflater_ = libdeflate_alloc_decompressor();
  return out->inflater_ != nullptr && out->element_bytes_ > 0 ? std::move(out) : nullptr;
}

ChunkUnpacker::~ChunkUnpacker() { libdeflate_free_decompressor(inflater_); }

Bytes ChunkUnpacker::rows(const OpenDataset& dataset, std::uint64_t first, std::uint64_t count) {
  const std::uint64_t chunk = first / chunk_rows_;
  if (count == 0 || (first + count - 1) / chunk_rows_ != chunk) return {};
  if (chunk != current_ && !unpack(dataset, chunk)) return {};
  return Bytes(unpacked_).subspan(first % chunk_rows_ * row_bytes_, count * row_bytes_);
}

bool ChunkUnpacker::unpack(const OpenDataset& dataset, std::uint64_t chunk) {
  std::array<hsize_t, H5S_MAX_RANK> offset{};
  offset[0] = chunk * chunk_rows_;
  hsize_t size = 0;
  std::uint32_t skipped = 0;  // filters that were left out for this chunk
  current_ = ~std::uint64_t{0};
  if (H5Dget_chunk_storage_size(dataset.dataset.get(), offset.data(), &size) < 0 || size == 0 ||
      size > kMaxChunkBytes) {
    return false;
  }
  stored_.resize(size);
  if (H5Dread_chunk(dataset.dataset.get(), H5P_DEFAULT, offset.data(), &skipped, stored_.data()) <
          0 ||
      skipped != 0) {
    return false;
  }
  const std::uint64_t bytes = chunk_rows_ * row_bytes_;
  unpacked_.resize(bytes);
  if (shuffled_) inflated_.resize(bytes);
  std::byte* out = shuffled_ ? inflated_.data() : unpacked_.data();
  std::size_t got = 0;
  if (libdeflate_zlib_decompress(inflater_, stored_.data(), size, out, bytes, &got) !=
          LIBDEFLATE_SUCCESS ||
      got != bytes) {
    return false;
  }
  if (shuffled_) unshuffle(inflated_.data(), bytes, element_bytes_, unpacked_.data());
  current_ = chunk;
  return true;
}

}  // namespace shardmill::hdf5
