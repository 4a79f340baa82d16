// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/decode/image.h>
#include <shardmill/loader/decode/labels.h>

#include <cstdint>

#include "loader/decode/internal/pixel_buffer.h"
#include "loader/decode/internal/pixels.h"

namespace shardmill::internal {

/// Reads the header of a PNG, and the orientation where an eXIf chunk, EXIF kept as text or an XMP
/// packet says one; width and height after orientation.
ImageInfo probe_png(Bytes bytes);

/// Decodes a PNG as stored into 8-bit RGB or, with 4 `channels`, RGBA in `buffer`; sets `info` and
/// `stored`. False if it was cut off, which the options allow: the rest is black.
bool read_png(Bytes bytes, const DecodeOptions& options, std::size_t channels, PixelBuffer& buffer,
              ImageInfo& info, Size& stored);

/// Decodes a PNG of one channel as stored, without scaling: palette indices, grey values.
void read_png_labels(Bytes bytes, std::uint64_t max_pixels, PixelBuffer& buffer,
                     LabelImage& labels);

}  // namespace shardmill::internal
