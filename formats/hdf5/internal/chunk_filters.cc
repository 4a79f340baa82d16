// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/chunk_filters.h"

#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "formats/hdf5/internal/little_endian.h"
#include "formats/hdf5/internal/lzf.h"

namespace shardmill::hdf5 {

namespace {

constexpr std::uint64_t kMaxChunkBytes = 0xFFFFFFFF;  // HDF5's own limit
constexpr std::uint64_t kMaxRatio = 1040;             // deflate makes 1032 bytes of one at most
constexpr std::uint64_t kMaxChunks = std::uint64_t{1} << 32;  // half a gigabyte of marks
constexpr std::size_t kSumBytes = 4;

// Brings the first bytes of all elements, then all second ones … together again.
void gather(Bytes in, std::size_t element, std::byte* out) {
  const std::size_t count = in.size() / element;
  for (std::size_t i = 0; i < element; ++i) {
    const std::byte* from = in.data() + i * count;
    std::byte* to = out + i;
    for (std::size_t n = 0; n < count; ++n, to += element) *to = from[n];
  }
  const Bytes rest = in.subspan(count * element);
  std::copy(rest.begin(), rest.end(), out + count * element);
}

// HDF5's Fletcher sums of big-endian 16-bit words, an odd byte at the end being the upper half of
// one. They count modulo 65535 and are 65535 instead of 0 unless all is zero.
std::uint32_t fletcher32(Bytes bytes) {
  constexpr std::size_t kWordsAtOnce = 1 << 16;
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  bool any = false;
  const auto word = [&](std::size_t at) {
    const auto high = static_cast<std::uint64_t>(bytes[at]) << 8;
    return at + 1 < bytes.size() ? high | static_cast<std::uint64_t>(bytes[at + 1]) : high;
  };
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = std::min(bytes.size(), at + 2 * kWordsAtOnce);
    for (; at < end; at += 2) {
      first += word(at);
      second += first;
    }
    any = any || first != 0;
    first %= 65535;
    second %= 65535;
  }
  const auto folded = [any](std::uint64_t sum) {
    return static_cast<std::uint32_t>(sum == 0 && any ? 65535 : sum);
  };
  return folded(second) << 16 | folded(first);
}

// Versions before 1.6.3 wrote the bytes of both halves the other way round on little-endian
// machines.
std::uint32_t swapped_halves(std::uint32_t sum) {
  return (sum & 0x00FF00FF) << 8 | (sum >> 8 & 0x00FF00FF);
}

const char* name_of(int filter) {
  switch (filter) {
    case H5Z_FILTER_DEFLATE:
      return "deflate";
    case H5Z_FILTER_SHUFFLE:
      return "shuffle";
    case H5Z_FILTER_FLETCHER32:
      return "Fletcher32";
    default:
      return "lzf";
  }
}

}  // namespace

std::unique_ptr<ChunkFilters> ChunkFilters::of(const OpenDataset& dataset) {
  if (dataset.layout != H5D_CHUNKED || dataset.chunk.empty()) return nullptr;
  // Elements of variable length have another size in memory, which is all that can be asked for.
  if (has_variable_parts(dataset.type.get())) return nullptr;
  const PropertyHandle list(H5Dget_create_plist(dataset.dataset.get()));
  unsigned options = 0;
  if (!list || H5Pget_chunk_opts(list.get(), &options) < 0 || options != 0) return nullptr;
  std::unique_ptr<ChunkFilters> out(new ChunkFilters);
  const int filters = H5Pget_nfilters(list.get());
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    unsigned config = 0;
    std::size_t values = 0;
    const H5Z_filter_t filter = H5Pget_filter2(list.get(), static_cast<unsigned>(i), &flags,
                                               &values, nullptr, 0, nullptr, &config);
    if (filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_SHUFFLE &&
        filter != H5Z_FILTER_FLETCHER32 && filter != kLzfFilter) {
      return nullptr;
    }
    out->filters_.push_back(filter);
  }
  out->element_bytes_ = H5Tget_size(dataset.type.get());
  out->chunk_bytes_ = out->element_bytes_;
  for (const std::uint64_t extent : dataset.chunk) {
    if (__builtin_mul_overflow(out->chunk_bytes_, extent, &out->chunk_bytes_)) return nullptr;
  }
  if (filters < 1 || out->chunk_bytes_ == 0 || out->chunk_bytes_ > kMaxChunkBytes) return nullptr;
  out->inflater_ = libdeflate_alloc_decompressor();
  return out->inflater_ != nullptr ? std::move(out) : nullptr;
}

ChunkFilters::~ChunkFilters() { libdeflate_free_decompressor(inflater_); }

Bytes ChunkFilters::read(const OpenDataset& dataset, const std::string& path,
                         const hsize_t* offset) {
  const auto damaged = [&](const std::string& cause) {
    std::string at;
    for (std::size_t d = 0; d < dataset.dims.size(); ++d) {
      at += (d > 0 ? ", " : "") + std::to_string(offset[d]);
    }
    throw Error(ErrorCode::kDataLoss, path, dataset.place(), "chunk at [" + at + "]: " + cause,
                "copy or convert the file again");
  };
  hsize_t size = 0;
  std::uint32_t left_out = 0;  // filters that this chunk does not have
  // Where nothing was written yet, this fails for some kinds of chunk indices and is 0 for others.
  if (H5Dget_chunk_storage_size(dataset.dataset.get(), offset, &size) < 0 || size == 0) return {};
  // No filter here makes its input much larger.
  const std::uint64_t most = chunk_bytes_ + kSumBytes * filters_.size();
  if (size > 2 * most + 4096 || chunk_bytes_ / kMaxRatio > size) {
    damaged("it has " + std::to_string(size) + " bytes, " + std::to_string(chunk_bytes_) +
            " cannot be made of them");
  }
  data_.resize(size);
  if (H5Dread_chunk(dataset.dataset.get(), H5P_DEFAULT, offset, &left_out, data_.data()) < 0) {
    damaged("cannot be read: " + last_error());
  }
  for (std::size_t i = filters_.size(); i-- > 0;) {
    if ((left_out >> i & 1) != 0 || undo(filters_[i], most)) continue;
    damaged(filters_[i] == H5Z_FILTER_FLETCHER32
                ? "data error detected by its Fletcher32 checksum"
                : "what " + std::string(name_of(filters_[i])) + " made of it is damaged");
  }
  if (data_.size() != chunk_bytes_) {
    damaged("it unpacks to " + std::to_string(data_.size()) + " bytes, " +
            std::to_string(chunk_bytes_) + " are expected");
  }
  return data_;
}

bool ChunkFilters::undo(int filter, std::size_t most) {
  switch (filter) {
    case H5Z_FILTER_DEFLATE:
      return inflate(most);
    case H5Z_FILTER_SHUFFLE:
      return unshuffle();
    case H5Z_FILTER_FLETCHER32:
      return check_sum();
    default:
      spare_.resize(most);
      spare_.resize(lzf_decompress(data_, spare_));
      data_.swap(spare_);
      return !data_.empty();
  }
}

bool ChunkFilters::inflate(std::size_t most) {
  spare_.resize(most);
  std::size_t got = 0;
  const bool whole = libdeflate_zlib_decompress(inflater_, data_.data(), data_.size(),
                                                spare_.data(), most, &got) == LIBDEFLATE_SUCCESS;
  spare_.resize(got);
  data_.swap(spare_);
  return whole;
}

bool ChunkFilters::unshuffle() {
  if (element_bytes_ < 2) return true;
  spare_.resize(data_.size());
  gather(data_, element_bytes_, spare_.data());
  data_.swap(spare_);
  return true;
}

bool ChunkFilters::check_sum() {
  if (data_.size() < kSumBytes) return false;
  const std::size_t size = data_.size() - kSumBytes;
  const auto stored = little_endian<std::uint32_t>(data_, size);
  data_.resize(size);
  const std::uint32_t sum = fletcher32(data_);
  return stored == sum || stored == swapped_halves(sum);
}

std::unique_ptr<CheckedChunks> CheckedChunks::of(const OpenDataset& dataset) {
  auto filters = ChunkFilters::of(dataset);
  if (filters == nullptr) return nullptr;
  std::unique_ptr<CheckedChunks> out(new CheckedChunks);
  out->filters_ = std::move(filters);
  std::uint64_t chunks = 1;
  for (std::size_t d = 0; d < dataset.dims.size(); ++d) {
    const std::uint64_t along = (dataset.dims[d] + dataset.chunk[d] - 1) / dataset.chunk[d];
    if (__builtin_mul_overflow(chunks, along, &chunks) || chunks > kMaxChunks) {
      throw Error(ErrorCode::kUnsupported, {}, dataset.place(),
                  "more than " + std::to_string(kMaxChunks) + " chunks",
                  "copy it with larger chunks (h5repack -l CHUNK=...)");
    }
    if (d > 0) out->across_ *= along;
  }
  out->checked_.resize(chunks);
  return out;
}

void CheckedChunks::check_rows(const OpenDataset& dataset, const std::string& path,
                               std::uint64_t first, std::uint64_t count) {
  if (count == 0) return;
  std::array<hsize_t, H5S_MAX_RANK> offset{};
  const std::uint64_t end = (first + count - 1) / dataset.chunk[0] + 1;
  for (std::uint64_t chunk = first / dataset.chunk[0] * across_; chunk < end * across_; ++chunk) {
    if (checked_.at(chunk)) continue;
    std::uint64_t rest = chunk;
    for (std::size_t d = dataset.dims.size(); d-- > 0;) {
      const std::uint64_t along = (dataset.dims[d] + dataset.chunk[d] - 1) / dataset.chunk[d];
      offset[d] = d == 0 ? rest * dataset.chunk[0] : rest % along * dataset.chunk[d];
      rest /= along;
    }
    filters_->read(dataset, path, offset.data());
    checked_[chunk] = true;
  }
}

}  // namespace shardmill::hdf5
