// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/array.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace shardmill {

/// Which channels decoded pixels have.
enum class Channels : std::uint8_t {
  kRgb,   ///< Alpha is dropped: the stored colours stay.
  kGrey,  ///< Luma: what JPEG stores; of other colours 0.299 R + 0.587 G + 0.114 B.
  kRgba,  ///< Alpha is kept, not multiplied into the colours; 255 where an image has none.
};

/// How decoded pixels are written.
struct PixelForm {
  Channels channels = Channels::kRgb;
  bool channels_first = false;  ///< Channels × height × width instead of height × width × channels.
  /// kUInt8; or kFloat32 or kFloat16, which are (value / 255 - mean) / std of each channel, as
  /// torchvision's ToTensor and Normalize give them.
  DType dtype = DType::kUInt8;
  std::array<float, 4> mean = {0, 0, 0, 0};
  std::array<float, 4> std = {1, 1, 1, 1};
  /// kRgb and kGrey: what is transparent shows `fill` behind it, as on a page. Else alpha is
  /// dropped.
  bool blend = false;
  /// Colour, as 8-bit RGBA, of what no pixel of the image covers: beside it in Fit::kLetterbox.
  std::array<std::uint8_t, 4> fill = {0, 0, 0, 255};

  std::size_t channel_count() const noexcept {
    return channels == Channels::kGrey ? 1 : channels == Channels::kRgb ? 3 : 4;
  }
  /// Returns the type of an image of that size in this form.
  ArrayType row(std::uint64_t width, std::uint64_t height) const {
    const std::uint64_t count = channel_count();
    return channels_first ? ArrayType{dtype, {count, height, width}}
                          : ArrayType{dtype, {height, width, count}};
  }
};

/// Returns the form that most networks trained on ImageNet take: channels first, `dtype` (a
/// floating-point type), with that data set's means and deviations.
inline PixelForm imagenet_form(DType dtype = DType::kFloat32) noexcept {
  PixelForm form;
  form.channels_first = true;
  form.dtype = dtype;
  form.mean = {0.485F, 0.456F, 0.406F, 0};
  form.std = {0.229F, 0.224F, 0.225F, 1};
  return form;
}

/// How an image is brought to the size of an output of other proportions.
enum class Fit : std::uint8_t {
  kCover,      ///< Resized until it covers the output; what reaches beyond is cut off, centred.
  kStretch,    ///< Resized to the output's size, each way on its own.
  kLetterbox,  ///< Resized to fit inside, centred; the rest has the fill colour.
};

}  // namespace shardmill
