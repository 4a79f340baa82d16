// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/batch_outputs.h"

namespace shardmill::internal {

namespace {

using Form = OutputPlace::Form;

void view_values(BatchOutput& made, const Output& output, const OutputPlace& place,
                 const SlotControl& slot, const SlotMemory& memory, std::size_t rows) {
  switch (place.form) {
    case Form::kRows:
      made.data = {memory.row(place, 0), rows * place.row_bytes};
      break;
    case Form::kPadded:
      made.row = padded_row(output, place, memory, rows);
      made.data = {memory.packed(place.arena), rows * made.row.bytes()};
      break;
    case Form::kRagged:
      made.ragged = true;
      made.offsets = {memory.offsets(place), rows + 1};
      made.data = {memory.packed(place.arena),
                   static_cast<std::size_t>(made.offsets[rows]) * dtype_size(made.row.dtype)};
      break;
    case Form::kList:
      made.ragged = true;
      made.offsets = {memory.offsets(place), rows};
      made.lengths = {memory.lengths(place), rows};
      made.data = {memory.arena(place.arena),
                   slot.header->arena_used[static_cast<std::size_t>(place.arena)].load()};
      break;
  }
}

}  // namespace

std::vector<BatchOutput> batch_outputs(std::span<const Output> outputs,
                                       std::span<const OutputPlace> places, const SlotControl& slot,
                                       const SlotMemory& memory, std::size_t rows) {
  std::vector<BatchOutput> all;
  all.reserve(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    BatchOutput& made = all.emplace_back();
    made.name = outputs[i].name;
    made.row = outputs[i].row;
    view_values(made, outputs[i], places[i], slot, memory, rows);
    if (places[i].sizes != OutputPlace::kNone) {
      made.sizes = {memory.sizes(places[i], 0), rows * places[i].extents};
    }
    if (places[i].present != OutputPlace::kNone) made.present = {memory.present(places[i]), rows};
  }
  return all;
}

}  // namespace shardmill::internal
