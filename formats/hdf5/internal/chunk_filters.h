// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "formats/hdf5/internal/catalog.h"

struct libdeflate_decompressor;

namespace shardmill::hdf5 {

/// Takes the common filters (deflate, shuffle, fletcher32, lzf, in any combination) off chunks: in
/// about half the library's time, and safe from chunks that unpack to fewer bytes than they should,
/// behind which the library reads on. Needs a Session.
class ChunkFilters {
 public:
  /// Makes one, or null if the dataset has no filters or others.
  static std::unique_ptr<ChunkFilters> of(const OpenDataset& dataset);
  ~ChunkFilters();
  ChunkFilters(const ChunkFilters&) = delete;
  ChunkFilters& operator=(const ChunkFilters&) = delete;

  /// Reads the chunk whose first element is at `offset` (one coordinate per dimension): lends its
  /// elements as they are stored without filters, until the next call; nothing if it was never
  /// written. Throws kDataLoss with `path` if it is damaged.
  Bytes read(const OpenDataset& dataset, const std::string& path, const hsize_t* offset);

  std::uint64_t chunk_bytes() const noexcept { return chunk_bytes_; }

 private:
  ChunkFilters() = default;
  bool undo(int filter, std::size_t most);
  bool inflate(std::size_t most);
  bool unshuffle();
  bool check_sum();

  std::vector<int> filters_;  // in the order of writing
  std::size_t element_bytes_ = 0;
  std::uint64_t chunk_bytes_ = 0;
  std::vector<std::byte> data_;
  std::vector<std::byte> spare_;  // what a filter writes into
  libdeflate_decompressor* inflater_ = nullptr;
};

/// The chunks of one dataset that were seen to be whole, so that the library may read them.
class CheckedChunks {
 public:
  /// Makes one, or null if nothing has to be checked: ChunkFilters does not know the filters.
  static std::unique_ptr<CheckedChunks> of(const OpenDataset& dataset);

  /// Checks all chunks that rows [first, first + count) touch, each once. Throws as
  /// ChunkFilters::read().
  void check_rows(const OpenDataset& dataset, const std::string& path, std::uint64_t first,
                  std::uint64_t count);

 private:
  std::unique_ptr<ChunkFilters> filters_;
  std::uint64_t across_ = 1;  // chunks of a row
  std::vector<bool> checked_;
};

}  // namespace shardmill::hdf5
