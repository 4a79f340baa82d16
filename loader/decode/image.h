// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>
#include <shardmill/loader/decode/pixel_form.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace shardmill {

/// Image formats told apart by content; only JPEG, PNG and WebP are decoded.
enum class ImageFormat : std::uint8_t { kUnknown, kJpeg, kPng, kWebp, kGif, kBmp, kTiff };

/// Returns the format that the first bytes of `bytes` announce, whatever its field is called.
ImageFormat sniff_image(Bytes bytes) noexcept;
/// Returns a lower-case name: "jpeg", "png", "webp", "gif", "bmp", "tiff", "unknown".
std::string_view image_format_name(ImageFormat format) noexcept;

/// What the header of an image says.
struct ImageInfo {
  ImageFormat format = ImageFormat::kUnknown;
  std::uint32_t width = 0;        ///< As the loader delivers it: after `orientation` was applied.
  std::uint32_t height = 0;       ///< As the loader delivers it: after `orientation` was applied.
  std::uint32_t channels = 0;     ///< As stored: palette and grey 1, CMYK 4, with alpha 2 or 4.
  std::uint32_t bit_depth = 0;    ///< Bits per stored channel.
  std::uint32_t orientation = 1;  ///< EXIF orientation, 1 to 8; 5 to 8 swap width and height.
};

/// A part of an image as it is shown, in its pixels; edges may fall between pixels.
struct ImagePart {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
  bool flip = false;  ///< Mirrored, left to right, after it was cut out.
  /// Where in the output it goes, in whole pixels; 0 × 0: all of it.
  std::uint32_t out_left = 0;
  std::uint32_t out_top = 0;
  std::uint32_t out_width = 0;
  std::uint32_t out_height = 0;
};
/// Returns the part of an image of size `width` × `height`, and its place in an output of size
/// `out_width` × `out_height`, that `fit` says. REQUIRES: no size is 0.
ImagePart fit_part(Fit fit, std::uint32_t width, std::uint32_t height, std::uint32_t out_width,
                   std::uint32_t out_height) noexcept;
/// Chooses the part for an image that is shown `width` × `height` pixels large.
using ChoosePart = std::function<ImagePart(std::uint32_t width, std::uint32_t height)>;

/// How images are decoded when they are resized. Full-size output is always exact.
enum class DecodeMode : std::uint8_t {
  kFast,   ///< Scaled decoding and resizing before colour conversion where that is faster.
  kExact,  ///< The library's own full-size pixels, then an antialiased bilinear resize.
};

/// Returns "fast" or "exact".
std::string_view decode_mode_name(DecodeMode mode) noexcept;

/// Options of an ImageDecoder. Limits are checked before anything of that size is allocated.
struct DecodeOptions {
  DecodeMode mode = DecodeMode::kFast;
  std::uint64_t max_pixels = 178'000'000;  ///< Width times height of the stored image.
  std::uint32_t max_scans = 500;           ///< Scans of one progressive JPEG.
  /// False: images are shown as they are stored, whatever EXIF says.
  bool apply_orientation = true;
  /// JPEGs and PNGs that were cut off are shown as far as they go: the rest of a JPEG is grey, that
  /// of a PNG black. Else they are errors, as damage inside always is, and a WebP without its end.
  bool allow_truncated = false;
};

/// Reads the header of an image without decoding pixels. Without `apply_orientation` all images
/// have orientation 1.
///
/// Throws Error with empty path and place, which callers add: kDataLoss for damage and for bytes
/// that are no image, kUnsupported, by name, for formats that are not decoded.
ImageInfo probe_image(Bytes bytes, bool apply_orientation = true);

/// Decodes JPEG, PNG and WebP images, told apart by content, into 8-bit RGB.
///
/// EXIF orientation is applied; alpha is dropped (the stored colours stay); grey, palette and
/// CMYK become RGB; 16-bit values are scaled to 8 bits with rounding; of an animation the first
/// frame counts. One thread. Keeps its buffers between images, but nothing of an image: the same
/// bytes always give the same pixels.
///
/// Throws Error with empty path and place, which callers add: kDataLoss for corrupt or truncated
/// data, kUnsupported for what cannot be decoded, kResourceExhausted above the limits.
class ImageDecoder {
 public:
  explicit ImageDecoder(DecodeOptions options = {});
  ~ImageDecoder();
  ImageDecoder(ImageDecoder&&) noexcept;
  ImageDecoder& operator=(ImageDecoder&&) noexcept;

  const DecodeOptions& options() const noexcept;

  /// Resizes so that the shorter side covers the target, cuts the centre, and writes
  /// height * width * 3 bytes (RGB, rows packed) to `out`. REQUIRES: width, height > 0.
  void decode_cover(Bytes image, std::uint32_t width, std::uint32_t height, std::uint8_t* out);

  /// Cuts out the part that `choose` names and resizes it, whatever its proportions, to height *
  /// width * 3 bytes in `out`. REQUIRES: width, height > 0; the part lies inside the image and is
  /// not empty.
  void decode_part(Bytes image, const ChoosePart& choose, std::uint32_t width, std::uint32_t height,
                   std::uint8_t* out);
  /// The same in another form: `out` takes form.row(width, height).bytes() bytes.
  void decode_part(Bytes image, const ChoosePart& choose, std::uint32_t width, std::uint32_t height,
                   const PixelForm& form, std::byte* out);

  /// An image at full size: RGB, rows packed.
  struct Pixels {
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    std::span<const std::uint8_t> rgb;  ///< Lent until the decoder's next call.
  };
  /// Decodes at full size, for JPEG bit for bit as libjpeg-turbo's accurate DCT and fancy
  /// upsampling give it.
  Pixels decode_full(Bytes image);
  /// The same in another form, into the upper left of `out`, which holds `width` × `height` pixels,
  /// channels last or as large as the image. REQUIRES: the image is not larger.
  void decode_full(Bytes image, std::uint32_t width, std::uint32_t height, const PixelForm& form,
                   std::byte* out);

  /// True if the image decoded last was cut off; see DecodeOptions::allow_truncated.
  bool was_truncated() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardmill
