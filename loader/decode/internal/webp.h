// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/decode/image.h>

#include <cstdint>

#include "loader/decode/internal/pixel_buffer.h"
#include "loader/decode/internal/pixels.h"

namespace shardmill::internal {

/// A parsed WebP container: one picture, or the first frame of an animation on its canvas.
struct WebpImage {
  ImageInfo info;   ///< Width and height after orientation.
  Size stored;      ///< Of the canvas.
  Bytes frame;      ///< What libwebp decodes.
  Size frame_size;  ///< Of the picture inside the canvas.
  std::uint32_t frame_x = 0;
  std::uint32_t frame_y = 0;
  bool lossy = false;

  bool fills_canvas() const noexcept {
    return frame_size.width == stored.width && frame_size.height == stored.height;
  }
};

/// Parses the container; throws for damage, also where the file is shorter than it says.
WebpImage open_webp(Bytes bytes);

/// Decodes as stored into 8-bit RGB or, with 4 `channels`, RGBA in `buffer`. Canvas that the first
/// frame does not cover is black, or transparent.
void read_webp(const WebpImage& image, std::size_t channels, PixelBuffer& buffer);

/// Decodes the part around `box` of a picture that fills its canvas into RGB or RGBA in `buffer`;
/// `reach` is how many pixels around are needed.
Interleaved read_webp_part(const WebpImage& image, std::size_t channels, const Box& box,
                           double reach, PixelBuffer& buffer);

/// Decodes the part around `box` of a lossy picture that fills its canvas into planes in `buffer`,
/// before upsampling and colour conversion; `reach` is how many pixels around are needed. Without
/// `deblock` the edges of blocks are not smoothed, which is seen only where pixels stay as large.
Planes read_webp_planes(const WebpImage& image, const Box& box, double reach, bool deblock,
                        PixelBuffer& buffer);

}  // namespace shardmill::internal
