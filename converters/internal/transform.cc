// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/transform.h"

#include <shardmill/formats/error.h>
#include <shardmill/loader/decode/image.h>

#include <algorithm>

namespace shardmill::internal {

namespace {

constexpr std::string_view kArrayField = "npy";

// The sample's own image, not one beside it such as `seg.png`.
bool is_main_image(std::string_view field) {
  return field.find('.') == std::string_view::npos && is_image_field(field);
}

}  // namespace

struct Transform::State {
  ImageOutput output;
  ArrayType array;
  ImageDecoder decoder;
  std::vector<std::uint8_t> pixels;
  std::vector<FieldView> views;
};

Transform::Transform(const ConvertOptions& options) : state_(std::make_unique<State>()) {
  state_->output = options.image_output;
  if (options.image_output != ImageOutput::kRaw) return;
  const ImageSize size = options.image_size.value();
  state_->array = {DType::kUInt8, {size.height, size.width, 3}};
  state_->pixels.resize(state_->array.bytes());
}

Transform::~Transform() = default;
Transform::Transform(Transform&&) noexcept = default;
Transform& Transform::operator=(Transform&&) noexcept = default;

std::vector<FieldSpec> Transform::fields(const std::vector<FieldSummary>& source,
                                         const std::string& path) const {
  std::vector<FieldSpec> fields;
  const bool raw = state_->output == ImageOutput::kRaw;
  for (const FieldSummary& field : source) {
    if (raw && is_main_image(field.name)) continue;
    if (raw && field.name == kArrayField) {
      throw Error(ErrorCode::kUnsupported, path, "field \"npy\"",
                  "samples have this field already, decoded images cannot become it",
                  "convert without --image-format");
    }
    fields.push_back({field.name, field.kind, field.array.value_or(ArrayType{}), field.optional});
  }
  if (raw) fields.push_back({std::string(kArrayField), FieldKind::kArray, state_->array, false});
  std::sort(fields.begin(), fields.end(),
            [](const FieldSpec& a, const FieldSpec& b) { return a.name < b.name; });
  return fields;
}

SampleView Transform::apply(const SampleView& sample, const std::string& path) {
  if (state_->output == ImageOutput::kKeep) return sample;
  std::vector<FieldView>& views = state_->views;
  views.clear();
  const FieldView* image = nullptr;
  for (const FieldView& field : sample.fields) {
    const bool main = is_main_image(field.name);
    if (main && image != nullptr) {
      throw Error(ErrorCode::kUnsupported, path, sample_place(sample.key, field.name),
                  "a second image field, only one can become the array",
                  "decode samples that have one image field");
    }
    if (main) {
      image = &field;
    } else {
      views.push_back(field);
    }
  }
  if (image == nullptr) {
    throw Error(ErrorCode::kUnsupported, path, sample_place(sample.key),
                "has no image field (jpg, jpeg, png, webp) to decode",
                "convert without --image-format");
  }
  try {
    state_->decoder.decode_cover(image->bytes, static_cast<std::uint32_t>(state_->array.shape[1]),
                                 static_cast<std::uint32_t>(state_->array.shape[0]),
                                 state_->pixels.data());
  } catch (const Error& error) {
    ErrorInfo info = error.info();
    info.path = path;
    info.place = sample_place(sample.key, image->name);
    if (info.remedy.empty()) info.remedy = "repair or remove this image";
    throw Error(std::move(info));
  }
  views.push_back({kArrayField, std::as_bytes(std::span(state_->pixels)), &state_->array});
  std::sort(views.begin(), views.end(),
            [](const FieldView& a, const FieldView& b) { return a.name < b.name; });
  return {sample.key, views};
}

}  // namespace shardmill::internal
