// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/options.h>

#include <algorithm>
#include <cstdint>

namespace shardmill::internal {

/// How the positions of an epoch, from `cursor` on, fall to ranks and batches: rank r of R has
/// the positions p with p - cursor = r (mod R). So any cursor can be gone on from with another
/// number of ranks and another batch size, without a gap or a double. A value.
struct Schedule {
  std::uint64_t total = 0;   ///< Positions of the epoch.
  std::uint64_t cursor = 0;  ///< Positions before it were delivered earlier.
  std::uint64_t rank = 0;
  std::uint64_t world_size = 1;
  std::uint64_t batch_size = 1;
  Uneven uneven = Uneven::kPad;
  bool drop_last = false;

  /// Returns this rank's rows from the cursor to the end, also those that drop_last drops.
  std::uint64_t rows() const noexcept {
    const std::uint64_t left = total - std::min(cursor, total);
    switch (uneven) {
      case Uneven::kPad:
        return (left + world_size - 1) / world_size;
      case Uneven::kDrop:
        return left / world_size;
      case Uneven::kExact:
        break;
    }
    return left / world_size + (rank < left % world_size ? 1 : 0);
  }
  std::uint64_t batches() const noexcept {
    return drop_last ? rows() / batch_size : (rows() + batch_size - 1) / batch_size;
  }
  /// Returns the rows that are delivered.
  std::uint64_t delivered_rows() const noexcept {
    return drop_last ? batches() * batch_size : rows();
  }
  /// REQUIRES: batch < batches().
  std::uint64_t rows_of(std::uint64_t batch) const noexcept {
    return std::min(batch_size, rows() - batch * batch_size);
  }
  /// Returns a row's global position; `total` or more are padding, which begins anew at 0.
  std::uint64_t position(std::uint64_t batch, std::uint64_t row) const noexcept {
    return cursor + (batch * batch_size + row) * world_size + rank;
  }
  /// Returns the cursor to go on from when all ranks have had `batches` batches.
  std::uint64_t cursor_after(std::uint64_t done) const noexcept {
    return done >= batches() ? total : std::min(total, cursor + done * batch_size * world_size);
  }
  /// Returns the number that `batch` has in an epoch that was begun at 0.
  std::uint64_t index(std::uint64_t batch) const noexcept {
    return cursor / (batch_size * world_size) + batch;
  }
};

}  // namespace shardmill::internal
