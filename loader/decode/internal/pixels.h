// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/error.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace shardmill::internal {

/// One plane of samples of a decoded image, borrowed.
struct Plane {
  const std::uint8_t* data = nullptr;
  std::size_t stride = 0;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  double scale_x = 1;   ///< Plane columns per column of the full-size image.
  double scale_y = 1;   ///< Plane rows per row of the full-size image.
  double offset_x = 0;  ///< Plane column that column 0 of the full-size image falls on.
  double offset_y = 0;  ///< Plane row that row 0 of the full-size image falls on.
  double blur = 0;      ///< Width of the box that scaled decoding averaged over, in plane samples.
};

/// What the planes of an image mean.
enum class PlaneColors : std::uint8_t {
  kGrey,           ///< One plane.
  kYccFullRange,   ///< JFIF: BT.601, 0 to 255.
  kYccVideoRange,  ///< WebP: BT.601, 16 to 235.
  kRgb,            ///< Three planes of equal meaning.
  kRgba,           ///< The same, multiplied with the fourth.
};

struct Planes {
  PlaneColors colors = PlaneColors::kGrey;
  std::array<Plane, 4> planes{};
  std::size_t count() const noexcept {
    return colors == PlaneColors::kGrey ? 1 : colors == PlaneColors::kRgba ? 4 : 3;
  }
};

/// Interleaved pixels of a decoded image or of a part of it, borrowed.
struct Interleaved {
  const std::uint8_t* data = nullptr;
  std::size_t channels = 3;  ///< 3: RGB; 4: RGBA, colours multiplied with alpha.
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  double offset_x = 0;  ///< Column that column 0 of the full-size image falls on.
  double offset_y = 0;
};

/// A part of an image in its own pixels; edges may fall between pixels.
struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
  double width() const noexcept { return right - left; }
  double height() const noexcept { return bottom - top; }
};

struct Size {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint64_t pixels() const noexcept { return std::uint64_t{width} * height; }
};

/// Returns the largest centred part of `image` with the proportions of `target`: resized to
/// `target` it equals resizing the shorter side and cutting the centre.
inline Box cover_box(Size image, Size target) noexcept {
  const double x = double{1} * image.width / target.width;
  const double y = double{1} * image.height / target.height;
  const double scale = x < y ? x : y;
  const double left = std::max((image.width - target.width * scale) / 2, 0.0);
  const double top = std::max((image.height - target.height * scale) / 2, 0.0);
  return {left, top, image.width - left, image.height - top};
}

/// Throws kResourceExhausted if `size` holds more than `max_pixels`.
void check_pixels(Size size, std::uint64_t max_pixels);

/// An Error about a payload: path and place are for the caller to add.
inline Error image_error(ErrorCode code, std::string cause, std::string remedy = {}) {
  return Error(code, {}, {}, std::move(cause), std::move(remedy));
}

}  // namespace shardmill::internal
