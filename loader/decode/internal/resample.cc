// SPDX-License-Identifier: Apache-2.0
#include "loader/decode/internal/resample.h"

#include <libyuv.h>

#include <algorithm>
#include <cmath>

#include "loader/decode/internal/blend.h"
#include "loader/decode/internal/exact_kernels.h"
#include "loader/decode/internal/exif.h"

namespace shardmill::internal {

namespace {

constexpr std::size_t rounded_up(std::size_t n, std::size_t multiple) noexcept {
  return (n + multiple - 1) / multiple * multiple;
}

int as_int(std::size_t n) noexcept { return static_cast<int>(n); }

// Rounds weights that sum to about 1 so that they sum to exactly one in fixed point.
void quantise(const double* weights, std::size_t count, double sum, std::int16_t* out) {
  constexpr int kOne = 1 << kWeightBits;
  const double scale = kOne / sum;
  int left = kOne;
  std::size_t largest = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const int weight = static_cast<int>(weights[k] * scale + 0.5);
    out[k] = static_cast<std::int16_t>(weight);
    left -= weight;
    if (out[k] > out[largest]) largest = k;
  }
  out[largest] = static_cast<std::int16_t>(out[largest] + left);
}

}  // namespace

void Taps::compute(std::uint32_t size, double low, double high, std::uint32_t count, double blur) {
  if (size == size_ && low == low_ && high == high_ && count == count_ && blur == blur_) return;
  size_ = size, low_ = low, high_ = high, count_ = count, blur_ = blur;
  const double scale = (high - low) / count;
  // Variances of filters applied one after the other add: a triangle of half width s has s^2 / 6,
  // a box of width b has b^2 / 12.
  const double sharpened = std::sqrt(std::max(scale * scale - blur * blur / 2, 0.0));
  const double reach = std::max(sharpened, 1.0);
  per_output_ = rounded_up(static_cast<std::size_t>(std::ceil(2 * reach)) + 1, 2);
  first_.resize(count);
  count_of_.resize(count);
  weights_.assign(count * per_output_, 0);
  values_.resize(per_output_);
  begin_ = size, end_ = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    // Samples whose middle lies within reach; those on the edge have no weight.
    const double center = low + (i + 0.5) * scale - 0.5;
    const auto from =
        static_cast<std::uint32_t>(std::clamp(center - reach + 1, 0.0, double{1} * size - 1));
    const auto last = static_cast<std::uint32_t>(
        std::clamp(center + reach, double{1} * from, double{1} * size - 1));
    const std::size_t used = std::min<std::size_t>(last - from + 1, per_output_);
    double sum = 0;
    for (std::size_t k = 0; k < used; ++k) {
      values_[k] = std::max(reach - std::abs(static_cast<double>(from + k) - center), 0.0);
      sum += values_[k];
    }
    if (sum <= 0) values_[0] = sum = 1;
    first_[i] = from;
    count_of_[i] = static_cast<std::uint32_t>(rounded_up(used, 2));
    quantise(values_.data(), used, sum, &weights_[i * per_output_]);
    begin_ = std::min(begin_, from);
    end_ = std::max(end_, static_cast<std::uint32_t>(from + used));
  }
}

void FastResampler::blend_all(const Rows& in, const Taps& taps, const OutRows& out,
                              std::size_t width) {
  const BlendRows blend = best_blend_rows();
  pointers_.resize(std::max(pointers_.size(), taps.per_output()));
  for (std::uint32_t i = 0; i < out.count; ++i) {
    const std::size_t first = taps.first(i) - taps.begin();
    const std::size_t count = taps.count(i);
    // A tap beyond the last row has no weight, but must point to memory.
    for (std::size_t k = 0; k < count; ++k) {
      pointers_[k] = in.data + std::min<std::size_t>(first + k, in.count - 1) * in.stride;
    }
    const std::uint32_t row = out.reversed ? out.count - 1 - i : i;
    blend(pointers_.data(), taps.weights(i), count, out.data + row * out.stride, width);
  }
}

// The planes that a call returns. They are written to, though lent for reading.
Planes FastResampler::small_planes(PlaneColors colors, Size target) {
  Planes out;
  out.colors = colors;
  const std::size_t stride = rounded_up(target.width, 16);
  const std::size_t plane_bytes = stride * target.height;
  const std::uint8_t* const small = small_.reserve(out.count() * plane_bytes);
  for (std::size_t i = 0; i < out.count(); ++i) {
    out.planes[i].data = small + i * plane_bytes;
    out.planes[i].stride = stride;
    out.planes[i].width = target.width;
    out.planes[i].height = target.height;
  }
  return out;
}

// Only rows can be blended in whole vectors, so columns are blended as the rows of the transposed
// plane. That turns and mirrors planes on the way, at no cost.
void FastResampler::resize_columns(const std::uint8_t* wide, std::size_t wide_stride,
                                   const Taps& columns, Size stored, std::uint32_t orientation,
                                   const Plane& out) {
  const std::uint32_t count = columns.end() - columns.begin();
  const std::size_t turned_stride = rounded_up(stored.height, 16);
  std::uint8_t* const turned = turned_.reserve(turned_stride * count);
  std::uint8_t* const to = small_.reserve(0) + (out.data - small_.reserve(0));
  libyuv::TransposePlane(wide, as_int(wide_stride), turned, as_int(turned_stride), as_int(count),
                         as_int(stored.height));
  const Rows lines{turned, turned_stride, count};
  if (orientation >= 5) {  // shown transposed, as it is now
    return blend_all(lines, columns, {to, out.stride, stored.width, from_right(orientation)},
                     stored.height);
  }
  std::uint8_t* const narrow = narrow_.reserve(turned_stride * stored.width);
  blend_all(lines, columns, {narrow, turned_stride, stored.width, from_right(orientation)},
            stored.height);
  libyuv::TransposePlane(narrow, as_int(turned_stride), to, as_int(out.stride),
                         as_int(stored.height), as_int(stored.width));
}

void FastResampler::resize_plane(const Plane& in, const Box& box, Size target,
                                 std::uint32_t orientation, const Plane& out) {
  const Size stored = oriented(target, orientation);
  PlaneTaps& taps = taps_[in.scale_x == luma_scale_x_ ? 0 : 1];
  taps.columns.compute(in.width, in.offset_x + box.left * in.scale_x,
                       in.offset_x + box.right * in.scale_x, stored.width, in.blur);
  taps.rows.compute(in.height, in.offset_y + box.top * in.scale_y,
                    in.offset_y + box.bottom * in.scale_y, stored.height, in.blur);
  const std::uint32_t columns = taps.columns.end() - taps.columns.begin();
  const std::uint32_t rows = taps.rows.end() - taps.rows.begin();
  const std::size_t stride = rounded_up(columns, 16);
  std::uint8_t* const wide = wide_.reserve(stride * stored.height);
  blend_all({in.data + taps.rows.begin() * in.stride + taps.columns.begin(), in.stride, rows},
            taps.rows, {wide, stride, stored.height, from_bottom(orientation)}, columns);
  resize_columns(wide, stride, taps.columns, stored, orientation, out);
}

Planes FastResampler::resize(const Planes& in, const Box& box, Size target,
                             std::uint32_t orientation) {
  const Planes out = small_planes(in.colors, target);
  luma_scale_x_ = in.planes[0].scale_x;
  for (std::size_t i = 0; i < in.count(); ++i) {
    resize_plane(in.planes[i], box, target, orientation, out.planes[i]);
  }
  return out;
}

// Rows are blended as they are; only what is left of them is taken apart.
Planes FastResampler::resize(const Interleaved& in, const Box& box, Size target,
                             std::uint32_t orientation) {
  const bool alpha = in.channels == 4;
  const Planes out = small_planes(alpha ? PlaneColors::kRgba : PlaneColors::kRgb, target);
  const Size stored = oriented(target, orientation);
  PlaneTaps& taps = taps_[0];
  taps.columns.compute(in.width, in.offset_x + box.left, in.offset_x + box.right, stored.width, 0);
  taps.rows.compute(in.height, in.offset_y + box.top, in.offset_y + box.bottom, stored.height, 0);
  const std::uint32_t columns = taps.columns.end() - taps.columns.begin();
  const std::uint32_t rows = taps.rows.end() - taps.rows.begin();
  const std::size_t in_stride = in.width * in.channels;
  const std::size_t wide_stride = rounded_up(columns * in.channels, 16);
  std::uint8_t* const wide = wide_.reserve(wide_stride * stored.height);
  blend_all({in.data + taps.rows.begin() * in_stride + taps.columns.begin() * in.channels,
             in_stride, rows},
            taps.rows, {wide, wide_stride, stored.height, from_bottom(orientation)},
            columns * in.channels);
  const std::size_t stride = rounded_up(columns, 16);
  const std::size_t plane = stride * stored.height;
  std::uint8_t* const red = split_.reserve(in.channels * plane);
  const int line = as_int(stride);
  if (alpha) {  // libyuv's ARGB is B, G, R, A in memory
    libyuv::SplitARGBPlane(wide, as_int(wide_stride), red + 2 * plane, line, red + plane, line, red,
                           line, red + 3 * plane, line, as_int(columns), as_int(stored.height));
  } else {
    libyuv::SplitRGBPlane(wide, as_int(wide_stride), red, line, red + plane, line, red + 2 * plane,
                          line, as_int(columns), as_int(stored.height));
  }
  for (std::size_t i = 0; i < in.channels; ++i) {
    resize_columns(red + i * plane, stride, taps.columns, stored, orientation, out.planes[i]);
  }
  return out;
}

void ExactResampler::Taps::compute(std::uint32_t size, float low, float high,
                                   std::uint32_t outputs) {
  const double scale = static_cast<double>(high - low) / outputs;
  const double reach = std::max(scale, 1.0);
  per_output = static_cast<std::size_t>(std::ceil(reach)) * 2 + 1;
  first.resize(outputs);
  count.resize(outputs);
  weights.assign(outputs * per_output, 0);
  values.resize(per_output);
  for (std::uint32_t i = 0; i < outputs; ++i) {
    const double center = static_cast<double>(low) + (i + 0.5) * scale;
    const auto from = static_cast<std::int64_t>(std::max(center - reach + 0.5, 0.0));
    const auto to =
        std::min(static_cast<std::int64_t>(center + reach + 0.5), static_cast<std::int64_t>(size));
    double sum = 0;
    for (std::int64_t k = from; k < to; ++k) {
      const double distance = (static_cast<double>(k) - center + 0.5) * (1 / reach);
      const double value = std::max(1 - std::abs(distance), 0.0);
      values[static_cast<std::size_t>(k - from)] = value;
      sum += value;
    }
    first[i] = static_cast<std::uint32_t>(from);
    count[i] = static_cast<std::uint32_t>(to - from);
    for (std::size_t k = 0; k < count[i]; ++k) {
      const double value = sum != 0 ? values[k] * (1 / sum) : values[k];
      weights[i * per_output + k] = static_cast<std::int32_t>(0.5 + value * (1 << kExactBits));
    }
  }
}

void ExactResampler::begin(const std::uint8_t* pixels, std::size_t channels, Size size,
                           const Box& box, Size target) {
  columns_.compute(size.width, static_cast<float>(box.left), static_cast<float>(box.right),
                   target.width);
  rows_.compute(size.height, static_cast<float>(box.top), static_cast<float>(box.bottom),
                target.height);
  begin_ = rows_.first.front();
  const std::uint32_t end = rows_.first.back() + rows_.count.back();
  stride_ = target.width * channels;
  std::uint8_t* const between = between_.reserve(stride_ * (end - begin_));
  row_.reserve(stride_);
  const ExactKernels& kernels = best_exact_kernels();
  const auto resize_row = channels == 4 ? kernels.columns_4 : kernels.columns_3;
  const ExactTaps taps{columns_.first.data(), columns_.count.data(), columns_.weights.data(),
                       columns_.per_output};
  for (std::uint32_t y = begin_; y < end; ++y) {
    resize_row(pixels + std::size_t{y} * size.width * channels, taps, target.width,
               between + (y - begin_) * stride_);
  }
}

std::uint8_t* ExactResampler::next_row(std::uint32_t y) {
  std::uint8_t* const row = row_.reserve(0);
  best_exact_kernels().rows(between_.reserve(0) + (rows_.first[y] - begin_) * stride_, stride_,
                            &rows_.weights[y * rows_.per_output], rows_.count[y], stride_, row);
  return row;
}

}  // namespace shardmill::internal
