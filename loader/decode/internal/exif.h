// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>

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

/// Returns where `shown`, a part of the image as shown, lies in the image as stored.
Box stored_box(const Box& shown, Size stored, std::uint32_t orientation) noexcept;

/// Writes the pixels (3 bytes each, rows packed) of an image of stored size `stored` as
/// `orientation` wants them shown. `in` and `out` must not overlap.
void orient_rgb(const std::uint8_t* in, Size stored, std::uint32_t orientation, std::uint8_t* out);

}  // namespace shardmill::internal
