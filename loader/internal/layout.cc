// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/layout.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <string>

namespace shardmill::internal {

namespace {

constexpr std::uint64_t kPage = 4096;
// No batch's values of one ragged output may be larger; only touched pages cost memory.
constexpr std::uint64_t kMaxArenaBytes = std::uint64_t{16} << 30;

constexpr std::uint64_t page_up(std::uint64_t n) { return (n + kPage - 1) / kPage * kPage; }

std::uint64_t end_of(const OutputPlace& place, std::size_t batch_size) {
  return place.ragged >= 0 ? place.offset + (batch_size + 1) * sizeof(std::int64_t)
                           : place.offset + batch_size * place.row_bytes;
}

}  // namespace

std::vector<OutputPlace> place_outputs(std::span<const Output> outputs, std::size_t batch_size) {
  std::vector<OutputPlace> places;
  std::uint64_t offset = 0;
  int ragged = 0;
  for (const Output& output : outputs) {
    OutputPlace place;
    place.offset = offset;
    if (output.kind == OutputKind::kBytes) {
      place.ragged = ragged++;
    } else {
      place.row_bytes = output.row.bytes();
    }
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(place.row_bytes, std::uint64_t{batch_size}, &bytes) ||
        bytes > kMaxArenaBytes * 64) {
      throw Error(ErrorCode::kResourceExhausted, {}, "output \"" + output.name + "\"",
                  "a batch of " + std::to_string(batch_size) + " rows of " +
                      std::to_string(place.row_bytes) + " bytes does not fit into memory",
                  "use a smaller batch_size");
    }
    offset = page_up(end_of(place, batch_size));
    places.push_back(place);
  }
  return places;
}

SlotLayout make_layout(std::span<const OutputPlace> places, std::size_t batch_size,
                       std::size_t slots, std::uint64_t file_bytes) {
  SlotLayout layout{};
  layout.batch_size = static_cast<std::uint32_t>(batch_size);
  for (const OutputPlace& place : places) {
    layout.fixed_bytes = page_up(end_of(place, batch_size));
    if (place.ragged >= 0) ++layout.ragged;
  }
  layout.fixed_bytes = std::max(layout.fixed_bytes, kPage);
  const std::uint64_t share = file_bytes / slots / kPage * kPage;
  if (share < layout.fixed_bytes + 2 * kPage * layout.ragged) {
    throw Error(ErrorCode::kResourceExhausted, {}, "batch memory",
                std::to_string(slots) + " batches of " + std::to_string(layout.fixed_bytes) +
                    " bytes are needed, " + std::to_string(file_bytes) + " bytes can be had",
                "use a smaller batch_size or prefetch");
  }
  if (layout.ragged > 0) {
    const std::uint64_t each = (share - layout.fixed_bytes) / (2 * layout.ragged);
    layout.arena_bytes = std::min(each / kPage * kPage, kMaxArenaBytes);
  }
  layout.stride = layout.fixed_bytes + 2 * layout.ragged * layout.arena_bytes;
  return layout;
}

}  // namespace shardmill::internal
