// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/masks.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "loader/decode/internal/exif.h"
#include "loader/internal/fields.h"
#include "loader/internal/numbers.h"

namespace shardmill::internal {

namespace {

// A part's place in an output of that size: all of it, or what the part says.
struct Place {
  std::uint64_t left, top, width, height;
};

Place place_of(const ImagePart& part, std::uint64_t width, std::uint64_t height) {
  if (part.out_width == 0) return {0, 0, width, height};
  return {part.out_left, part.out_top, part.out_width, part.out_height};
}

// The pixel of `size` that lies at the centre of pixel `i` of `count` that show [begin, end).
std::uint64_t nearest(double begin, double end, std::uint64_t i, std::uint64_t count,
                      std::uint64_t size) {
  const double at =
      begin + (static_cast<double>(i) + 0.5) * (end - begin) / static_cast<double>(count);
  return std::min(static_cast<std::uint64_t>(std::max(at, 0.0)), size - 1);
}

// How far apart in a stored image neighbours of the shown one lie, and where its first pixel is.
struct Steps {
  std::ptrdiff_t right, down, first;
};

Steps steps_of(std::uint32_t orientation, std::uint64_t width, std::uint64_t height) {
  const auto w = static_cast<std::ptrdiff_t>(width);
  const auto h = static_cast<std::ptrdiff_t>(height);
  const bool right = from_right(orientation);
  const bool bottom = from_bottom(orientation);
  const std::ptrdiff_t across = right ? -1 : 1;
  const std::ptrdiff_t along = bottom ? -w : w;
  const std::ptrdiff_t first = (right ? w - 1 : 0) + (bottom ? (h - 1) * w : 0);
  if (orientation >= 5) return {along, across, first};
  return {across, along, first};
}

}  // namespace

const LabelImage& MaskMaker::labels_of(const FieldView& field) {
  if (!is_array(field)) return decoder_.decode(field.bytes);
  const NpyView array = array_of(field);
  if (array.type.shape.size() != 2 || !is_integer(array.type.dtype)) {
    throw Error(ErrorCode::kInvalidArgument, {}, {},
                "is " + type_text(array.type) + ", masks are integers, height x width",
                "take it as an array");
  }
  array_.type = array.type;
  array_.orientation = 1;
  array_.data = array.data;
  if (!array.canonical()) {
    values_.resize(array.data.size());
    canonical_elements(array, values_.data());
    array_.data = values_;
  }
  return array_;
}

void MaskMaker::place(const FieldView& field, const ChosenPart& chosen, const Output& output,
                      std::byte* out) {
  const LabelImage& labels = labels_of(field);
  const std::uint64_t height = labels.type.shape[0];
  const std::uint64_t width = labels.type.shape[1];
  const bool turned = labels.orientation >= 5;
  const std::uint64_t shown_width = turned ? height : width;
  const std::uint64_t shown_height = turned ? width : height;
  if (shown_width != chosen.width || shown_height != chosen.height) {
    throw Error(ErrorCode::kInvalidArgument, {}, {},
                "mask of " + std::to_string(shown_width) + "x" + std::to_string(shown_height) +
                    " pixels, its image has " +
                    (chosen.width == 0
                         ? "none"
                         : std::to_string(chosen.width) + "x" + std::to_string(chosen.height)),
                "make masks as large as their images");
  }
  const ImagePart& part = chosen.part;
  const std::uint64_t out_width = output.row.shape[1];
  const Place to = place_of(part, out_width, output.row.shape[0]);
  const std::size_t to_bytes = dtype_size(output.row.dtype);
  if (to.width != out_width || to.height != output.row.shape[0]) {
    fill_numbers(output.row.dtype, static_cast<double>(output.border), out, output.row.elements());
  }
  const std::size_t from_bytes = dtype_size(labels.type.dtype);
  const Steps steps = steps_of(labels.orientation, width, height);
  columns_.resize(to.width);
  for (std::uint64_t x = 0; x < to.width; ++x) {
    const std::uint64_t column = part.flip ? to.width - 1 - x : x;
    columns_[x] = nearest(part.left, part.right, column, to.width, shown_width);
  }
  row_.type.dtype = labels.type.dtype;
  row_.type.shape.assign(1, to.width);
  row_bytes_.resize(to.width * from_bytes);
  row_.data = row_bytes_;
  for (std::uint64_t y = 0; y < to.height; ++y) {
    const std::uint64_t line = nearest(part.top, part.bottom, y, to.height, shown_height);
    const std::ptrdiff_t begin = steps.first + static_cast<std::ptrdiff_t>(line) * steps.down;
    for (std::uint64_t x = 0; x < to.width; ++x) {
      const auto at =
          static_cast<std::size_t>(begin + static_cast<std::ptrdiff_t>(columns_[x]) * steps.right);
      std::memcpy(row_bytes_.data() + x * from_bytes, labels.data.data() + at * from_bytes,
                  from_bytes);
    }
    convert_numbers(row_, output.row.dtype, out + ((to.top + y) * out_width + to.left) * to_bytes);
  }
}

void write_geometry(const ChosenPart& chosen, std::uint64_t width, std::uint64_t height,
                    std::byte* out) {
  std::array<float, 8> row{};
  if (chosen.width > 0) {
    const ImagePart& part = chosen.part;
    const Place to = place_of(part, width, height);
    double across = static_cast<double>(to.width) / (part.right - part.left);
    const double down = static_cast<double>(to.height) / (part.bottom - part.top);
    double left = static_cast<double>(to.left) - across * part.left;
    if (part.flip) {
      across = -across;
      left = static_cast<double>(to.left) - across * part.right;
    }
    const double top = static_cast<double>(to.top) - down * part.top;
    row = {static_cast<float>(chosen.width), static_cast<float>(chosen.height),
           static_cast<float>(across),       0,
           static_cast<float>(left),         0,
           static_cast<float>(down),         static_cast<float>(top)};
  }
  std::memcpy(out, row.data(), sizeof row);
}

}  // namespace shardmill::internal
