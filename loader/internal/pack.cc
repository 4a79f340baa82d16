// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/pack.h"

#include <cstring>

#include "loader/internal/numbers.h"

namespace shardmill::internal {

namespace {

// Writes the values of a padded output as rows of one size.
void pack_padded(const Output& output, const OutputPlace& place, const SlotControl& slot,
                 const SlotMemory& memory) {
  const std::size_t rows = slot.header->rows;
  for (std::size_t row = 0; row < rows; ++row) {
    if (slot.status[row].load(std::memory_order_relaxed) == RowStatus::kGood) continue;
    for (std::uint32_t i = 0; i < place.extents; ++i) memory.sizes(place, row)[i] = 0;
  }
  const ArrayType type = padded_row(output, place, memory, rows);
  // A value is lines of elements: an image's rows, or a sequence as its only line.
  const bool image = place.extents == 2;
  const std::uint64_t element = dtype_size(type.dtype) * (image ? type.shape[2] : 1);
  const std::uint64_t lines = image ? type.shape[0] : 1;
  const std::uint64_t line = type.shape[image ? 1 : 0] * element;
  std::byte* to = memory.packed(place.arena);
  slot.header->packed_used[place.arena].store(rows * lines * line, std::memory_order_relaxed);
  for (std::size_t row = 0; row < rows; ++row, to += lines * line) {
    const std::int64_t* const sizes = memory.sizes(place, row);
    const std::uint64_t own_lines = image ? static_cast<std::uint64_t>(sizes[0]) : 1;
    const std::uint64_t own_line = static_cast<std::uint64_t>(sizes[image ? 1 : 0]) * element;
    if (own_lines < lines || own_line < line) {
      fill_numbers(type.dtype, output.padding->value, to, lines * line / dtype_size(type.dtype));
    }
    if (own_lines == 0 || own_line == 0) continue;
    const std::byte* from =
        memory.arena(place.arena) +
        slot.ranges[row * kMaxArenas + static_cast<std::size_t>(place.arena)].begin;
    for (std::uint64_t y = 0; y < own_lines; ++y) {
      std::memcpy(to + y * line, from + y * own_line, own_line);
    }
  }
}

// Writes ragged values behind each other, and their offsets.
void pack_ragged(const Output& output, const OutputPlace& place, const SlotControl& slot,
                 const SlotMemory& memory) {
  const std::uint64_t element = dtype_size(output.row.dtype);
  const std::byte* const arena = memory.arena(place.arena);
  std::byte* const packed = memory.packed(place.arena);
  std::int64_t* const offsets = memory.offsets(place);
  std::uint64_t at = 0;
  for (std::size_t row = 0; row < slot.header->rows; ++row) {
    offsets[row] = static_cast<std::int64_t>(at / element);
    if (slot.status[row].load(std::memory_order_relaxed) != RowStatus::kGood) continue;
    const ArenaRange range = slot.ranges[row * kMaxArenas + static_cast<std::size_t>(place.arena)];
    std::memcpy(packed + at, arena + range.begin, range.length);
    at += range.length;
  }
  offsets[slot.header->rows] = static_cast<std::int64_t>(at / element);
}

}  // namespace

void pack_values(std::span<const Output> outputs, std::span<const OutputPlace> places,
                 const SlotControl& slot, const SlotMemory& memory) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].form == OutputPlace::Form::kRagged) {
      pack_ragged(outputs[i], places[i], slot, memory);
    }
    if (places[i].form == OutputPlace::Form::kPadded) {
      pack_padded(outputs[i], places[i], slot, memory);
    }
  }
}

}  // namespace shardmill::internal
