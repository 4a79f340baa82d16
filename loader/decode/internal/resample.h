// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "loader/decode/internal/pixel_buffer.h"
#include "loader/decode/internal/pixels.h"

namespace shardmill::internal {

/// Which input samples make one output sample, for one axis: antialiased bilinear (a triangle as
/// wide as the reduction), in the fixed point of blend.h.
class Taps {
 public:
  /// `size` samples, of which [low, high) become `count` output samples. `blur` is the width of
  /// the box that an earlier reduction already averaged over, in input samples.
  void compute(std::uint32_t size, double low, double high, std::uint32_t count, double blur);

  std::size_t per_output() const noexcept { return per_output_; }  ///< The most taps; even.
  /// How many taps `output` has; even, the last may have no weight.
  std::size_t count(std::size_t output) const noexcept { return count_of_[output]; }
  std::uint32_t first(std::size_t output) const noexcept { return first_[output]; }
  const std::int16_t* weights(std::size_t output) const noexcept {
    return &weights_[output * per_output_];
  }
  std::uint32_t begin() const noexcept { return begin_; }  ///< First input sample needed.
  std::uint32_t end() const noexcept { return end_; }      ///< One past the last.

 private:
  std::vector<std::uint32_t> first_, count_of_;
  std::vector<std::int16_t> weights_;
  std::vector<double> values_;
  std::size_t per_output_ = 0;
  std::uint32_t size_ = 0, count_ = 0;
  double low_ = 0, high_ = 0, blur_ = 0;
  std::uint32_t begin_ = 0, end_ = 0;
};

/// Returns how far beyond a box samples are read, in samples, when `ratio` samples become one.
inline double filter_reach(double ratio) noexcept { return (ratio > 1 ? ratio : 1) + 1; }

/// Resizes planes. One thread; keeps its buffers.
class FastResampler {
 public:
  /// Resizes `box` (in pixels of the full-size image as stored) of `in` to `target` pixels, turned
  /// as `orientation` wants them shown. What is returned is lent until the next call.
  Planes resize(const Planes& in, const Box& box, Size target, std::uint32_t orientation);
  Planes resize(const Interleaved& in, const Box& box, Size target, std::uint32_t orientation);

 private:
  Planes small_planes(PlaneColors colors, Size target);
  void resize_plane(const Plane& in, const Box& box, Size target, std::uint32_t orientation,
                    const Plane& out);
  void resize_columns(const std::uint8_t* wide, std::size_t wide_stride, const Taps& columns,
                      Size stored, std::uint32_t orientation, const Plane& out);
  struct Rows {
    const std::uint8_t* data;
    std::size_t stride;
    std::uint32_t count;
  };
  struct OutRows {
    std::uint8_t* data;
    std::size_t stride;
    std::uint32_t count;
    bool reversed;
  };
  void blend_all(const Rows& in, const Taps& taps, const OutRows& out, std::size_t width);

  // Of luma and chroma, so that images of one size and the two chroma planes reuse them.
  struct PlaneTaps {
    Taps rows, columns;
  };
  PlaneTaps taps_[2];
  double luma_scale_x_ = 1;
  std::vector<const std::uint8_t*> pointers_;
  PixelBuffer wide_, split_, turned_, narrow_, small_;
};

/// Resizes interleaved pixels: antialiased bilinear, rows first, 22 bit weights and 8 bit in
/// between, which is the arithmetic of Pillow's `resize`. One thread; keeps its buffers.
class ExactResampler {
 public:
  /// Resizes `box` of `pixels` (`channels`, 3 or 4, bytes each, in a PixelBuffer) and hands `sink`
  /// every row of `target` in turn: sink(y, row), which may write to the row.
  template <class Sink>
  void resize(const std::uint8_t* pixels, std::size_t channels, Size size, const Box& box,
              Size target, const Sink& sink) {
    begin(pixels, channels, size, box, target);
    for (std::uint32_t y = 0; y < target.height; ++y) sink(y, next_row(y));
  }

 private:
  /// For each output sample: where its taps begin, how many, and their weights.
  struct Taps {
    std::vector<std::uint32_t> first, count;
    std::vector<std::int32_t> weights;
    std::vector<double> values;
    std::size_t per_output = 0;

    void compute(std::uint32_t size, float low, float high, std::uint32_t outputs);
  };

  void begin(const std::uint8_t* pixels, std::size_t channels, Size size, const Box& box,
             Size target);
  std::uint8_t* next_row(std::uint32_t y);

  Taps columns_, rows_;
  PixelBuffer between_, row_;
  std::size_t stride_ = 0;
  std::uint32_t begin_ = 0;
};

}  // namespace shardmill::internal
