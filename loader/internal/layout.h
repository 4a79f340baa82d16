// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/options.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "loader/internal/control.h"

namespace shardmill::internal {

/// Where one output lies in a slot.
struct OutputPlace {
  std::uint64_t offset = 0;     ///< Of the rows; of the offsets array where ragged.
  std::uint64_t row_bytes = 0;  ///< 0 where ragged.
  int ragged = -1;              ///< Number among the ragged outputs, or -1.
};

/// A slot's memory: first the rows of all outputs of one size and the offsets of ragged ones
/// (`fixed_bytes`, page-locked on request), then per ragged output an arena that rows append to
/// in any order and an area where the seal packs them in row order.
struct SlotMemory {
  std::byte* base = nullptr;
  const SlotLayout* layout = nullptr;

  std::byte* row(const OutputPlace& place, std::size_t row) const noexcept {
    return base + place.offset + row * place.row_bytes;
  }
  std::int64_t* offsets(const OutputPlace& place) const noexcept {
    return reinterpret_cast<std::int64_t*>(base + place.offset);
  }
  std::byte* arena(int ragged) const noexcept { return area(2 * ragged); }
  std::byte* packed(int ragged) const noexcept { return area(2 * ragged + 1); }

 private:
  std::byte* area(int number) const noexcept {
    return base + layout->fixed_bytes + static_cast<std::uint64_t>(number) * layout->arena_bytes;
  }
};

/// Places `outputs` (resolved) one behind the other, each at a page's beginning.
std::vector<OutputPlace> place_outputs(std::span<const Output> outputs, std::size_t batch_size);

/// Computes the sizes of slots so that `slots` of them fit into `file_bytes`. Throws
/// kResourceExhausted if the fixed parts alone do not.
SlotLayout make_layout(std::span<const OutputPlace> places, std::size_t batch_size,
                       std::size_t slots, std::uint64_t file_bytes);

}  // namespace shardmill::internal
