// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/drop_rows.h"

#include <cstring>

namespace shardmill::internal {

void drop_bad_rows(const SlotControl& slot, const SlotMemory& memory,
                   std::span<const OutputPlace> places) noexcept {
  std::size_t kept = 0;
  for (std::size_t row = 0; row < slot.header->rows; ++row) {
    if (slot.status[row].load() != RowStatus::kGood) continue;
    if (kept != row) {
      slot.plan[kept] = slot.plan[row];
      slot.failed[kept].store(slot.failed[row].load());
      for (const OutputPlace& place : places) {
        if (place.ragged >= 0) {  // a bad row's value has no bytes
          std::int64_t* const offsets = memory.offsets(place);
          offsets[kept + 1] = offsets[row + 1];
        } else {
          std::memcpy(memory.row(place, kept), memory.row(place, row), place.row_bytes);
        }
      }
    }
    ++kept;
  }
  slot.header->rows = static_cast<std::uint32_t>(kept);
}

}  // namespace shardmill::internal
