// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>
#include <shardmill/loader/decode/labels.h>
#include <shardmill/loader/outputs.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardmill::internal {

/// Which part of an image an output took.
struct ChosenPart {
  std::uint32_t width = 0;  ///< Of the whole image as shown; 0: there is no image.
  std::uint32_t height = 0;
  ImagePart part;
};

/// Places labels as images were placed. One thread.
class MaskMaker {
 public:
  /// Writes the row of `output` (kMask) to `out`, from the labels in `field` and the part that was
  /// chosen of its image. Throws Error without path and place.
  void place(const FieldView& field, const ChosenPart& chosen, const Output& output,
             std::byte* out);

 private:
  const LabelImage& labels_of(const FieldView& field);

  LabelDecoder decoder_;
  LabelImage array_;               // labels that were an array
  std::vector<std::byte> values_;  // theirs, where they were not stored in C order
  std::vector<std::size_t> columns_;
  NpyView row_;
  std::vector<std::byte> row_bytes_;
};

/// Writes the row of a geometry output, of an image placed in `width` × `height` pixels, to `out`;
/// zeros if there is no image.
void write_geometry(const ChosenPart& chosen, std::uint64_t width, std::uint64_t height,
                    std::byte* out);

}  // namespace shardmill::internal
