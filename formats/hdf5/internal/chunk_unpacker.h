// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>

#include <cstdint>
#include <memory>
#include <string>

#include "formats/hdf5/internal/chunk_filters.h"

namespace shardmill::hdf5 {

/// Lends rows of chunks that common filters packed. Keeps the one unpacked last. Needs a Session.
class ChunkUnpacker {
 public:
  /// Makes one, or null if ChunkFilters does not know the filters or chunks do not hold whole rows.
  static std::unique_ptr<ChunkUnpacker> of(const OpenDataset& dataset, std::uint64_t row_bytes);

  /// Lends rows [first, first + count) until the next call; nothing if the library should read
  /// them: they lie in several chunks, or in one that was never written. Throws kDataLoss.
  Bytes rows(const OpenDataset& dataset, const std::string& path, std::uint64_t first,
             std::uint64_t count);

 private:
  std::unique_ptr<ChunkFilters> filters_;
  std::uint64_t row_bytes_ = 0;
  std::uint64_t chunk_rows_ = 0;
  std::uint64_t current_ = ~std::uint64_t{0};  // the chunk in unpacked_
  Bytes unpacked_;
};

}  // namespace shardmill::hdf5
