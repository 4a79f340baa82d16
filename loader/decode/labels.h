// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/array.h>
#include <shardmill/loader/decode/image.h>

#include <cstdint>
#include <memory>

namespace shardmill {

/// An image of labels as stored: one integer per pixel, borrowed.
struct LabelImage {
  ArrayType type;                 ///< uint8, or uint16 for 16-bit images; height × width.
  Bytes data;                     ///< Little-endian, rows packed.
  std::uint32_t orientation = 1;  ///< EXIF's, still to be applied.
};

/// Decodes PNGs whose pixels are labels: segmentation masks, depth. Palette images give their
/// indices, grey ones of 1 to 16 bits their stored values: nothing is scaled. One thread. Keeps its
/// buffer between images.
class LabelDecoder {
 public:
  LabelDecoder();
  ~LabelDecoder();

  /// Lends the labels until the next call. Throws Error with empty path and place, which callers
  /// add: kDataLoss for damage, kUnsupported for other formats (JPEG changes values) and for
  /// pixels of several channels, kResourceExhausted above `max_pixels`.
  const LabelImage& decode(Bytes image, std::uint64_t max_pixels = DecodeOptions{}.max_pixels);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardmill
