// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>

#include <cstddef>
#include <cstdint>

#include "loader/decode/internal/pixels.h"

namespace shardmill::internal {

/// Returns the orientation (1 to 8) that an EXIF block says, with or without its `Exif\0\0` mark;
/// 1 where it says none or is damaged: metadata never makes an image unreadable.
std::uint32_t exif_orientation(Bytes exif) noexcept;

/// Returns the size of an image of stored size `stored` once `orientation` is applied.
inline Size oriented(Size stored, std::uint32_t orientation) noexcept {
  return orientation >= 5 ? Size{stored.height, stored.width} : stored;
}

/// Returns the orientation that also mirrors what `orientation` shows, left to right.
inline std::uint32_t mirrored(std::uint32_t orientation) noexcept {
  return ((orientation - 1) ^ 1) + 1;
}

/// True if the image as stored is mirrored, before it is transposed (5 to 8), to show it.
inline bool from_right(std::uint32_t orientation) noexcept {
  return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}
inline bool from_bottom(std::uint32_t orientation) noexcept {
  return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

/// Returns where `shown`, a part of the image as shown, lies in the image as stored.
Box stored_box(const Box& shown, Size stored, std::uint32_t orientation) noexcept;

/// Writes the pixels (`channels`, 3 or 4, bytes each, rows packed) of an image of stored size
/// `stored` as `orientation` wants them shown. `in` and `out` must not overlap.
void orient_pixels(const std::uint8_t* in, std::size_t channels, Size stored,
                   std::uint32_t orientation, std::uint8_t* out);

}  // namespace shardmill::internal
