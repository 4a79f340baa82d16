// SPDX-License-Identifier: Apache-2.0
#include <shardmill/loader/decode/labels.h>

#include <new>
#include <string>

#include "loader/decode/internal/png.h"

namespace shardmill {

struct LabelDecoder::State {
  internal::PixelBuffer buffer;
  LabelImage labels;
};

LabelDecoder::LabelDecoder() : state_(std::make_unique<State>()) {}
LabelDecoder::~LabelDecoder() = default;

const LabelImage& LabelDecoder::decode(Bytes image, std::uint64_t max_pixels) {
  if (image.empty()) throw internal::image_error(ErrorCode::kDataLoss, "empty image (0 bytes)");
  const ImageFormat format = sniff_image(image);
  if (format != ImageFormat::kPng) {
    throw internal::image_error(ErrorCode::kUnsupported,
                                "labels in a file of format " +
                                    std::string(image_format_name(format)) +
                                    ", only PNG and arrays keep them",
                                "convert masks to PNG from what they were drawn in");
  }
  try {
    internal::read_png_labels(image, max_pixels, state_->buffer, state_->labels);
  } catch (const std::bad_alloc&) {
    throw internal::image_error(ErrorCode::kResourceExhausted, "out of memory for an image");
  }
  return state_->labels;
}

}  // namespace shardmill
