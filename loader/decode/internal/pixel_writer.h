// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/decode/pixel_form.h>

#include <cstddef>
#include <cstdint>

#include "loader/decode/internal/pixel_buffer.h"
#include "loader/decode/internal/pixel_kernels.h"
#include "loader/decode/internal/pixels.h"

namespace shardmill::internal {

/// Divides the colours of `count` RGBA pixels by their alpha, which they were multiplied with.
void divide_by_alpha(std::uint8_t* rgba, std::size_t count);

/// Writes an image's pixels in the form that is wanted, a few rows at a time: between resized
/// planes and the output nothing as large as an image is kept. One thread; keeps its buffers.
class PixelWriter {
 public:
  /// Begins an output of `size` pixels.
  void begin(const PixelForm& form, Size size, std::byte* out);
  /// Puts the image at `left`, `top`, with `size` pixels.
  void place(std::uint32_t left, std::uint32_t top, Size size) noexcept;
  /// Fills what is outside of the image's place.
  void fill_border();

  const PixelForm& form() const noexcept { return form_; }
  Size size() const noexcept { return place_; }  ///< Of the image.

  /// Writes the image from planes of its size, as shown.
  void write(const Planes& planes);
  /// Writes `rows` rows of the image from `y` on: `channels` (3 or 4) bytes a pixel.
  void write_rows(std::uint32_t y, std::uint32_t rows, const std::uint8_t* pixels,
                  std::size_t stride, std::size_t channels);

 private:
  /// Pixels of the output, from its upper left.
  struct Area {
    std::uint32_t left, top, width, rows;
  };

  bool plain() const noexcept {
    return form_.channels == Channels::kRgb && !form_.channels_first &&
           form_.dtype == DType::kUInt8;
  }
  Area image_rows(std::uint32_t y, std::uint32_t rows) const noexcept {
    return {left_, top_ + y, place_.width, rows};
  }
  void blend(const std::uint8_t* rgba, std::size_t count, std::uint8_t* out) const;
  void write_plain(const Planes& planes);
  void emit_rgba(const Area& area, const std::uint8_t* rgba, std::size_t stride);
  void emit_bytes(const Area& area, const std::uint8_t* rgba, std::size_t stride);
  void emit_split(const Area& area, const std::uint8_t* rgba, std::size_t stride);
  void emit_sequence(const Area& area, const std::uint8_t* pixels, std::size_t stride,
                     std::size_t channels);
  void emit_grey(const Area& area, const std::uint8_t* grey, std::size_t stride);
  void fill(const Area& area);

  PixelForm form_;
  Size whole_, place_;
  std::uint32_t left_ = 0, top_ = 0;
  std::byte* out_ = nullptr;
  Normalisation normalisation_{};
  PixelBuffer rgba_, packed_, blended_;
};

}  // namespace shardmill::internal
