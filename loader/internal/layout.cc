// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/layout.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <string>

namespace shardmill::internal {

namespace {

using Form = OutputPlace::Form;

constexpr std::uint64_t kPage = 4096;
// No batch's values of one output may be larger; only touched pages cost memory.
constexpr std::uint64_t kMaxArenaBytes = std::uint64_t{16} << 30;
constexpr std::uint64_t kMaxRowsBytes = kMaxArenaBytes * 64;

constexpr std::uint64_t page_up(std::uint64_t n) { return (n + kPage - 1) / kPage * kPage; }

Form form_of(const Output& output) {
  if (is_ragged(output)) return output.list_view ? Form::kList : Form::kRagged;
  return output.padding && output.padding->multiple > 0 ? Form::kPadded : Form::kRows;
}

// Bytes of all rows at their largest.
std::uint64_t rows_bytes(const Output& output, std::size_t batch_size) {
  std::uint64_t bytes = 0;
  if (!__builtin_mul_overflow(output.row.bytes(), std::uint64_t{batch_size}, &bytes) &&
      bytes <= kMaxRowsBytes) {
    return bytes;
  }
  throw Error(ErrorCode::kResourceExhausted, {}, "output \"" + output.name + "\"",
              "a batch of " + std::to_string(batch_size) + " rows of " +
                  std::to_string(output.row.bytes()) + " bytes does not fit into memory",
              "use a smaller batch_size");
}

// Gives out pieces of the fixed part.
class Placer {
 public:
  std::uint64_t take(std::uint64_t bytes) {
    const std::uint64_t offset = end_;
    end_ = (end_ + bytes + 63) / 64 * 64;
    return offset;
  }
  std::uint64_t take_pages(std::uint64_t bytes) {
    end_ = page_up(end_);
    return take(bytes);
  }
  std::uint64_t end() const { return end_; }

 private:
  std::uint64_t end_ = 0;
};

struct Placed {
  std::vector<OutputPlace> places;
  std::uint64_t bytes = 0;
};

Placed place(std::span<const Output> outputs, std::size_t batch_size) {
  Placer placer;
  Placed placed;
  int arenas = 0;
  for (const Output& output : outputs) {  // the rows first, each output at a page's beginning
    OutputPlace place;
    place.form = form_of(output);
    if (place.form == Form::kRows) {
      place.row_bytes = output.row.bytes();
      place.offset = placer.take_pages(rows_bytes(output, batch_size));
    } else {
      place.arena = arenas++;
      if (place.form == Form::kPadded) rows_bytes(output, batch_size);
    }
    placed.places.push_back(place);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    OutputPlace& place = placed.places[i];
    if (place.form == Form::kRagged || place.form == Form::kList) {
      const std::size_t numbers = place.form == Form::kList ? 2 * batch_size : batch_size + 1;
      place.offset = placer.take(numbers * sizeof(std::int64_t));
    }
    if (outputs[i].padding) {
      place.extents = outputs[i].kind == OutputKind::kImage ? 2 : 1;
      place.sizes = placer.take(batch_size * place.extents * sizeof(std::int64_t));
    }
    if (outputs[i].optional) place.present = placer.take(batch_size);
  }
  placed.bytes = std::max(page_up(placer.end()), kPage);
  return placed;
}

}  // namespace

std::vector<OutputPlace> place_outputs(std::span<const Output> outputs, std::size_t batch_size) {
  return place(outputs, batch_size).places;
}

SlotLayout make_layout(std::span<const Output> outputs, std::size_t batch_size, std::size_t slots,
                       std::uint64_t file_bytes) {
  const Placed placed = place(outputs, batch_size);
  SlotLayout layout{};
  layout.batch_size = static_cast<std::uint32_t>(batch_size);
  layout.fixed_bytes = placed.bytes;
  layout.key_bytes = page_up(batch_size * kKeyBytesOfRow);
  std::uint64_t least_arena = 2 * kPage;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Form form = placed.places[i].form;
    if (form == Form::kRows) continue;
    ++layout.arenas;
    if (form != Form::kList) layout.sealed = 1;
    if (form == Form::kPadded) {
      least_arena = std::max(least_arena, page_up(rows_bytes(outputs[i], batch_size)));
    }
  }
  const std::uint64_t share = file_bytes / slots / kPage * kPage;
  const std::uint64_t least =
      layout.fixed_bytes + layout.key_bytes + 2 * layout.arenas * least_arena;
  if (share < least) {
    throw Error(ErrorCode::kResourceExhausted, {}, "batch memory",
                std::to_string(slots) + " batches of up to " + std::to_string(least) +
                    " bytes are needed, " + std::to_string(file_bytes) + " bytes can be had",
                "use a smaller batch_size or prefetch");
  }
  if (layout.arenas > 0) {
    const std::uint64_t each =
        (share - layout.fixed_bytes - layout.key_bytes) / (2 * layout.arenas);
    layout.arena_bytes = std::max(least_arena, std::min(each / kPage * kPage, kMaxArenaBytes));
  }
  layout.stride = layout.fixed_bytes + 2 * layout.arenas * layout.arena_bytes + layout.key_bytes;
  return layout;
}

ArrayType padded_row(const Output& output, const OutputPlace& place, const SlotMemory& memory,
                     std::size_t rows) {
  ArrayType row = output.row;
  const std::uint64_t multiple = output.padding->multiple;
  if (multiple == 0) return row;
  for (std::uint32_t extent = 0; extent < place.extents; ++extent) {
    std::uint64_t largest = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      largest = std::max(largest, static_cast<std::uint64_t>(memory.sizes(place, i)[extent]));
    }
    row.shape[extent] = std::min(row.shape[extent], (largest + multiple - 1) / multiple * multiple);
  }
  return row;
}

}  // namespace shardmill::internal
