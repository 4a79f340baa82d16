// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "formats/hdf5/internal/catalog.h"

struct libdeflate_decompressor;

namespace shardmill::hdf5 {

/// Unpacks chunks that are deflated, also after shuffling, in about half the library's time. Keeps
/// the one unpacked last. Needs a Session.
class ChunkUnpacker {
 public:
  /// Makes one, or null if the dataset's chunks are none of these or do not hold whole rows.
  static std::unique_ptr<ChunkUnpacker> of(const OpenDataset& dataset, std::uint64_t row_bytes);
  ~ChunkUnpacker();

  /// Lends rows [first, first + count), which must lie in one chunk, until the next call; nothing
  /// if the library should read them: chunks never written, left unfiltered, damaged.
  Bytes rows(const OpenDataset& dataset, std::uint64_t first, std::uint64_t count);

 private:
  ChunkUnpacker() = default;
  bool unpack(const OpenDataset& dataset, std::uint64_t chunk);

  std::uint64_t row_bytes_ = 0;
  std::uint64_t chunk_rows_ = 0;
  std::size_t element_bytes_ = 0;
  bool shuffled_ = false;
  std::uint64_t current_ = ~std::uint64_t{0};  // the chunk in unpacked_
  std::vector<std::byte> stored_;
  std::vector<std::byte> inflated_;
  std::vector<std::byte> unpacked_;
  libdeflate_decompressor* inflater_ = nullptr;
};

}  // namespace shardmill::hdf5
