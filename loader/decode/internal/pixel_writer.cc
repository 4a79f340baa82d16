// SPDX-License-Identifier: Apache-2.0
#include "loader/decode/internal/pixel_writer.h"

#include <libyuv.h>

#include <algorithm>
#include <cstring>

namespace shardmill::internal {

namespace {

constexpr std::uint32_t kChunk = 8;  // rows that are converted at a time: they stay in the cache

int as_int(std::size_t n) noexcept { return static_cast<int>(n); }

std::uint8_t luma(const std::uint8_t* rgb) noexcept {
  return static_cast<std::uint8_t>((rgb[0] * 19595U + rgb[1] * 38470U + rgb[2] * 7471U + 0x8000U) >>
                                   16);
}

void grey_from_rgba(const std::uint8_t* rgba, std::size_t count, std::uint8_t* grey) {
  for (std::size_t i = 0; i < count; ++i) grey[i] = luma(rgba + 4 * i);
}

}  // namespace

void divide_by_alpha(std::uint8_t* rgba, std::size_t count) {
  for (std::uint8_t* end = rgba + 4 * count; rgba != end; rgba += 4) {
    const unsigned alpha = rgba[3];
    if (alpha == 0 || alpha == 255) continue;
    for (int c = 0; c < 3; ++c) {
      rgba[c] = static_cast<std::uint8_t>(std::min(255U, rgba[c] * 255U / alpha));
    }
  }
}

// Only where colours are not multiplied with alpha any more.
void PixelWriter::blend(const std::uint8_t* rgba, std::size_t count, std::uint8_t* out) const {
  for (std::size_t i = 0; i < 4 * count; i += 4) {
    const unsigned alpha = rgba[i + 3];
    for (std::size_t c = 0; c < 3; ++c) {
      const unsigned sum = rgba[i + c] * alpha + form_.fill[c] * (255 - alpha) + 127;
      out[i + c] = static_cast<std::uint8_t>(sum / 255);
    }
    out[i + 3] = 255;
  }
}

void PixelWriter::begin(const PixelForm& form, Size size, std::byte* out) {
  form_ = form;
  whole_ = place_ = size;
  left_ = top_ = 0;
  out_ = out;
  if (form.dtype == DType::kUInt8) return;
  const std::size_t channels = form.channel_count();
  for (std::size_t i = 0; i < kPattern; ++i) {
    const std::size_t c = i % channels;
    normalisation_.scale[i] = static_cast<float>(1 / (255.0 * form.std[c]));
    normalisation_.bias[i] = static_cast<float>(-double{form.mean[c]} / form.std[c]);
  }
}

void PixelWriter::place(std::uint32_t left, std::uint32_t top, Size size) noexcept {
  left_ = left;
  top_ = top;
  place_ = size;
}

void PixelWriter::fill_border() {
  const std::uint32_t bottom = top_ + place_.height;
  const std::uint32_t right = left_ + place_.width;
  fill({0, 0, whole_.width, top_});
  fill({0, bottom, whole_.width, whole_.height - bottom});
  fill({0, top_, left_, place_.height});
  fill({right, top_, whole_.width - right, place_.height});
}

void PixelWriter::fill(const Area& area) {
  if (area.width == 0 || area.rows == 0) return;
  const std::size_t stride = std::size_t{area.width} * 4;
  std::uint8_t* const rgba = rgba_.reserve(stride * kChunk);
  for (std::size_t i = 0; i < std::size_t{area.width} * kChunk; ++i) {
    std::memcpy(rgba + 4 * i, form_.fill.data(), 4);
  }
  for (std::uint32_t y = 0; y < area.rows; y += kChunk) {
    emit_rgba({area.left, area.top + y, area.width, std::min(kChunk, area.rows - y)}, rgba, stride);
  }
}

// Straight into the output, all rows at once.
void PixelWriter::write_plain(const Planes& planes) {
  const auto& [first, second, third, alpha] = planes.planes;
  const int stride = as_int(first.stride);
  const int out_stride = as_int(std::size_t{whole_.width} * 3);
  auto* const out =
      reinterpret_cast<std::uint8_t*>(out_) + (std::size_t{top_} * whole_.width + left_) * 3;
  const int width = as_int(place_.width);
  const int height = as_int(place_.height);
  switch (planes.colors) {
    case PlaneColors::kGrey:
      libyuv::MergeRGBPlane(first.data, stride, first.data, stride, first.data, stride, out,
                            out_stride, width, height);
      break;
    case PlaneColors::kRgb:
    case PlaneColors::kRgba:
      libyuv::MergeRGBPlane(first.data, stride, second.data, stride, third.data, stride, out,
                            out_stride, width, height);
      break;
    case PlaneColors::kYccFullRange:
    case PlaneColors::kYccVideoRange:
      // libyuv's RGB24 is B, G, R in memory; constants and chroma of the mirrored names turn it
      // round.
      libyuv::I444ToRGB24Matrix(
          first.data, stride, third.data, stride, second.data, stride, out, out_stride,
          planes.colors == PlaneColors::kYccFullRange ? &libyuv::kYvuJPEGConstants
                                                      : &libyuv::kYvuI601Constants,
          width, height);
      break;
  }
}

void PixelWriter::write(const Planes& planes) {
  if (plain() && !(form_.blend && planes.colors == PlaneColors::kRgba)) return write_plain(planes);
  const auto& [first, second, third, alpha] = planes.planes;
  const bool has_luma =
      planes.colors == PlaneColors::kGrey || planes.colors == PlaneColors::kYccFullRange;
  if (form_.channels == Channels::kGrey && has_luma) {
    return emit_grey(image_rows(0, place_.height), first.data, first.stride);
  }
  const std::size_t stride = std::size_t{place_.width} * 4;
  const int in_stride = as_int(first.stride);
  const int out_stride = as_int(stride);
  const int width = as_int(place_.width);
  for (std::uint32_t y = 0; y < place_.height; y += kChunk) {
    const std::uint32_t rows = std::min(kChunk, place_.height - y);
    const int height = as_int(rows);
    const std::size_t at = y * first.stride;
    std::uint8_t* const rgba = rgba_.reserve(stride * kChunk);
    // libyuv's ARGB is B, G, R, A in memory: what goes in is turned round instead.
    switch (planes.colors) {
      case PlaneColors::kGrey:
        libyuv::MergeARGBPlane(first.data + at, in_stride, first.data + at, in_stride,
                               first.data + at, in_stride, nullptr, 0, rgba, out_stride, width,
                               height);
        break;
      case PlaneColors::kRgb:
        libyuv::MergeARGBPlane(third.data + at, in_stride, second.data + at, in_stride,
                               first.data + at, in_stride, nullptr, 0, rgba, out_stride, width,
                               height);
        break;
      case PlaneColors::kRgba:
        libyuv::MergeARGBPlane(third.data + at, in_stride, second.data + at, in_stride,
                               first.data + at, in_stride, alpha.data + at, in_stride, rgba,
                               out_stride, width, height);
        divide_by_alpha(rgba, std::size_t{place_.width} * rows);
        break;
      case PlaneColors::kYccFullRange:
      case PlaneColors::kYccVideoRange:
        libyuv::I444ToARGBMatrix(first.data + at, in_stride, third.data + at, in_stride,
                                 second.data + at, in_stride, rgba, out_stride,
                                 planes.colors == PlaneColors::kYccFullRange
                                     ? &libyuv::kYvuJPEGConstants
                                     : &libyuv::kYvuI601Constants,
                                 width, height);
        break;
    }
    emit_rgba(image_rows(y, rows), rgba, stride);
  }
}

void PixelWriter::write_rows(std::uint32_t y, std::uint32_t rows, const std::uint8_t* pixels,
                             std::size_t stride, std::size_t channels) {
  if (plain() && channels == 3) {
    auto* out = reinterpret_cast<std::uint8_t*>(out_);
    for (std::uint32_t i = 0; i < rows; ++i) {
      std::memcpy(out + ((std::size_t{top_} + y + i) * whole_.width + left_) * 3,
                  pixels + i * stride, std::size_t{place_.width} * 3);
    }
    return;
  }
  const std::size_t out_stride = std::size_t{place_.width} * 4;
  for (std::uint32_t done = 0; done < rows; done += kChunk) {
    const std::uint32_t some = std::min(kChunk, rows - done);
    if (channels == 4) {
      emit_rgba(image_rows(y + done, some), pixels + done * stride, stride);
      continue;
    }
    std::uint8_t* const rgba = rgba_.reserve(out_stride * kChunk);
    libyuv::RGB24ToARGB(pixels + done * stride, as_int(stride), rgba, as_int(out_stride),
                        as_int(place_.width), as_int(some));
    emit_rgba(image_rows(y + done, some), rgba, out_stride);
  }
}

void PixelWriter::emit_rgba(const Area& area, const std::uint8_t* rgba, std::size_t stride) {
  if (form_.blend && form_.channels != Channels::kRgba) {
    const std::size_t out_stride = std::size_t{area.width} * 4;
    std::uint8_t* const out = blended_.reserve(out_stride * area.rows);
    for (std::uint32_t y = 0; y < area.rows; ++y) {
      blend(rgba + y * stride, area.width, out + y * out_stride);
    }
    rgba = out;
    stride = out_stride;
  }
  if (form_.channels == Channels::kGrey) {
    std::uint8_t* const grey = packed_.reserve(std::size_t{area.width} * area.rows);
    for (std::uint32_t y = 0; y < area.rows; ++y) {
      grey_from_rgba(rgba + y * stride, area.width, grey + std::size_t{y} * area.width);
    }
    return emit_grey(area, grey, area.width);
  }
  if (form_.dtype == DType::kUInt8) return emit_bytes(area, rgba, stride);
  if (form_.channels_first) return emit_split(area, rgba, stride);
  if (form_.channels == Channels::kRgba) return emit_sequence(area, rgba, stride, 4);
  const std::size_t rgb_stride = std::size_t{area.width} * 3;
  std::uint8_t* const rgb = packed_.reserve(rgb_stride * area.rows);
  libyuv::ARGBToRGB24(rgba, as_int(stride), rgb, as_int(rgb_stride), as_int(area.width),
                      as_int(area.rows));
  emit_sequence(area, rgb, rgb_stride, 3);
}

void PixelWriter::emit_bytes(const Area& area, const std::uint8_t* rgba, std::size_t stride) {
  const std::size_t at = std::size_t{area.top} * whole_.width + area.left;
  const std::size_t plane = whole_.pixels();
  auto* const out = reinterpret_cast<std::uint8_t*>(out_);
  const bool alpha = form_.channels == Channels::kRgba;
  const int width = as_int(area.width);
  const int rows = as_int(area.rows);
  const int line = as_int(whole_.width);
  if (form_.channels_first) {
    libyuv::SplitARGBPlane(rgba, as_int(stride), out + 2 * plane + at, line, out + plane + at, line,
                           out + at, line, alpha ? out + 3 * plane + at : nullptr, line, width,
                           rows);
  } else if (alpha) {
    libyuv::CopyPlane(rgba, as_int(stride), out + 4 * at, 4 * line, 4 * width, rows);
  } else {
    libyuv::ARGBToRGB24(rgba, as_int(stride), out + 3 * at, 3 * line, width, rows);
  }
}

void PixelWriter::emit_split(const Area& area, const std::uint8_t* rgba, std::size_t stride) {
  const PixelKernels& kernels = best_pixel_kernels();
  const std::size_t channels = form_.channel_count();
  const std::size_t plane = whole_.pixels();
  // Rows as wide as the output lie behind each other on both sides.
  const bool joined = area.width == whole_.width && stride == std::size_t{area.width} * 4;
  const std::uint32_t lines = joined ? 1 : area.rows;
  const std::size_t count = joined ? std::size_t{area.width} * area.rows : area.width;
  for (std::uint32_t y = 0; y < lines; ++y) {
    const std::size_t at = (std::size_t{area.top} + y) * whole_.width + area.left;
    if (form_.dtype == DType::kFloat32) {
      auto* const out = reinterpret_cast<float*>(out_) + at;
      float* const planes[4] = {out, out + plane, out + 2 * plane, out + 3 * plane};
      kernels.split_float(rgba + y * stride, count, channels, normalisation_, planes);
    } else {
      auto* const out = reinterpret_cast<std::uint16_t*>(out_) + at;
      std::uint16_t* const planes[4] = {out, out + plane, out + 2 * plane, out + 3 * plane};
      kernels.split_half(rgba + y * stride, count, channels, normalisation_, planes);
    }
  }
}

void PixelWriter::emit_sequence(const Area& area, const std::uint8_t* pixels, std::size_t stride,
                                std::size_t channels) {
  const PixelKernels& kernels = best_pixel_kernels();
  const std::size_t count = area.width * channels;
  for (std::uint32_t y = 0; y < area.rows; ++y) {
    const std::size_t at = ((std::size_t{area.top} + y) * whole_.width + area.left) * channels;
    if (form_.dtype == DType::kFloat32) {
      kernels.to_float(pixels + y * stride, count, normalisation_,
                       reinterpret_cast<float*>(out_) + at);
    } else {
      kernels.to_half(pixels + y * stride, count, normalisation_,
                      reinterpret_cast<std::uint16_t*>(out_) + at);
    }
  }
}

void PixelWriter::emit_grey(const Area& area, const std::uint8_t* grey, std::size_t stride) {
  if (form_.dtype != DType::kUInt8) return emit_sequence(area, grey, stride, 1);
  libyuv::CopyPlane(
      grey, as_int(stride),
      reinterpret_cast<std::uint8_t*>(out_) + std::size_t{area.top} * whole_.width + area.left,
      as_int(whole_.width), as_int(area.width), as_int(area.rows));
}

}  // namespace shardmill::internal
