// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/decode/image.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardmill {

/// Interleaved 8-bit pixels, borrowed.
struct PixelView {
  const std::uint8_t* data = nullptr;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::size_t channels = 3;  ///< 1: grey, 3: RGB, 4: RGBA (not for JPEG).
  std::size_t stride = 0;    ///< Bytes from one row to the next; 0: rows are packed.
};

/// How an image is encoded.
struct EncodeOptions {
  ImageFormat format = ImageFormat::kJpeg;  ///< kJpeg, kPng or kWebp.
  /// 1 to 100, as the libraries count it: JPEG (4:2:0, chroma at full size from 96 on) and lossy
  /// WebP. 90 shows no difference at the size of training images.
  int quality = 90;
  bool lossless = false;  ///< WebP.
};

/// Encodes `pixels`; `out` becomes the file. The same pixels, options and library versions give
/// the same bytes. Any number of threads.
///
/// Throws Error with empty path and place, which callers add: kInvalidArgument for options and
/// pixels that make no image, kUnsupported for sizes that the format cannot hold,
/// kResourceExhausted where memory is short.
void encode_image(const PixelView& pixels, const EncodeOptions& options,
                  std::vector<std::byte>& out);

}  // namespace shardmill
