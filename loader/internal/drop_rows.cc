// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/drop_rows.h"

#include <algorithm>
#include <cstring>

namespace shardmill::internal {

namespace {

using Form = OutputPlace::Form;

// Moves what output `place` has of row `from` to row `to`, in front of it. Only forms whose rows
// have one size have anything to move but numbers.
void move_row(const OutputPlace& place, const SlotMemory& memory, std::uint64_t packed_row_bytes,
              std::size_t from, std::size_t to) noexcept {
  std::byte* const packed = place.arena >= 0 ? memory.packed(place.arena) : nullptr;
  switch (place.form) {
    case Form::kRows:
      std::memcpy(memory.row(place, to), memory.row(place, from), place.row_bytes);
      break;
    case Form::kRagged:  // a bad row's value has no bytes
      memory.offsets(place)[to + 1] = memory.offsets(place)[from + 1];
      break;
    case Form::kPadded:
      std::memcpy(packed + to * packed_row_bytes, packed + from * packed_row_bytes,
                  packed_row_bytes);
      break;
    case Form::kList:
      memory.offsets(place)[to] = memory.offsets(place)[from];
      memory.lengths(place)[to] = memory.lengths(place)[from];
      break;
  }
  if (place.sizes != OutputPlace::kNone) {
    std::copy_n(memory.sizes(place, from), place.extents, memory.sizes(place, to));
  }
  if (place.present != OutputPlace::kNone) {
    memory.present(place)[to] = memory.present(place)[from];
  }
}

}  // namespace

void drop_bad_rows(const SlotControl& slot, const SlotMemory& memory,
                   std::span<const Output> outputs, std::span<const OutputPlace> places) {
  const std::size_t rows = slot.header->rows;
  std::vector<std::uint64_t> packed_row_bytes(places.size(), 0);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].form != Form::kPadded) continue;
    packed_row_bytes[i] = padded_row(outputs[i], places[i], memory, rows).bytes();
  }
  std::size_t kept = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    if (slot.status[row].load() != RowStatus::kGood) continue;
    if (kept != row) {
      slot.plan[kept] = slot.plan[row];
      slot.failed[kept].store(slot.failed[row].load());
      memory.key_ranges()[kept] = memory.key_ranges()[row];
      for (std::size_t i = 0; i < places.size(); ++i) {
        move_row(places[i], memory, packed_row_bytes[i], row, kept);
      }
    }
    ++kept;
  }
  slot.header->rows = static_cast<std::uint32_t>(kept);
}

}  // namespace shardmill::internal
