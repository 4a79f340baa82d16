// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/fill_outputs.h"

namespace shardmill::internal {

void fill_outputs(std::span<const Output> outputs, std::span<const OutputPlace> places,
                  const SlotControl& slot, const SlotMemory& memory,
                  std::vector<BatchOutput>& filled) {
  const std::size_t rows = slot.header->rows;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const OutputPlace& place = places[i];
    BatchOutput& made = filled.emplace_back();
    made.name = outputs[i].name;
    made.row = outputs[i].row;
    if (place.ragged >= 0) {
      made.ragged = true;
      made.offsets = {memory.offsets(place), rows + 1};
      made.data = {memory.packed(place.ragged), static_cast<std::size_t>(made.offsets[rows])};
    } else {
      made.data = {memory.row(place, 0), rows * place.row_bytes};
    }
  }
}

}  // namespace shardmill::internal
