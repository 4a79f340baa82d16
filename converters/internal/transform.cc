// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/transform.h"

#include <shardmill/formats/error.h>
#include <shardmill/loader/decode/encoder.h>
#include <shardmill/loader/decode/image.h>

#include <algorithm>
#include <cmath>

namespace shardmill::internal {

namespace {

constexpr std::string_view kArrayField = "npy";

// The sample's own image, not one beside it such as `seg.png`.
bool is_main_image(std::string_view field) {
  return field.find('.') == std::string_view::npos && is_image_field(field);
}

// The field that encoded images get; empty: their own.
std::string_view field_for(ImageOutput output) {
  switch (output) {
    case ImageOutput::kJpeg:
      return "jpg";
    case ImageOutput::kWebp:
      return "webp";
    case ImageOutput::kPng:
      return "png";
    case ImageOutput::kRaw:
      return kArrayField;
    case ImageOutput::kKeep:
      break;
  }
  return {};
}

ImageFormat format_for(ImageOutput output, ImageFormat stored) {
  switch (output) {
    case ImageOutput::kJpeg:
      return ImageFormat::kJpeg;
    case ImageOutput::kWebp:
      return ImageFormat::kWebp;
    case ImageOutput::kPng:
      return ImageFormat::kPng;
    case ImageOutput::kRaw:
    case ImageOutput::kKeep:
      break;
  }
  return stored;
}

[[noreturn]] void fail(const Error& error, const std::string& path, std::string_view key,
                       std::string_view field) {
  ErrorInfo info = error.info();
  info.path = path;
  info.place = sample_place(key, field);
  if (info.remedy.empty()) info.remedy = "repair or remove this image";
  throw Error(std::move(info));
}

}  // namespace

struct Transform::State {
  ImageOutput output = ImageOutput::kKeep;
  std::optional<ImageSize> exact;
  std::uint32_t shorter = 0;
  int quality = 90;
  bool check = false;
  std::optional<ArrayType> raw;
  ImageDecoder decoder;
  std::vector<std::uint8_t> pixels;
  std::vector<std::byte> encoded;
  std::vector<FieldView> views;

  bool resizes() const noexcept { return exact.has_value() || shorter > 0; }

  // The size that an image of `info` gets. Never larger than it is, unless that was asked for.
  ImageSize target(const ImageInfo& info) const {
    if (exact) return *exact;
    const std::uint32_t least = std::min(info.width, info.height);
    if (shorter == 0 || least <= shorter) return {info.width, info.height};
    const auto scaled = [&](std::uint32_t side) {
      return std::max(1U, static_cast<std::uint32_t>(std::lround(
                              static_cast<double>(side) * shorter / static_cast<double>(least))));
    };
    return {scaled(info.width), scaled(info.height)};
  }

  void decode(Bytes image, const ImageInfo& info, ImageSize size) {
    pixels.resize(std::size_t{size.width} * size.height * 3);
    if (exact) return decoder.decode_cover(image, size.width, size.height, pixels.data());
    if (size.width == info.width && size.height == info.height) {
      const auto full = decoder.decode_full(image);
      pixels.assign(full.rgb.begin(), full.rgb.end());
      return;
    }
    const auto whole = [](std::uint32_t width, std::uint32_t height) {
      ImagePart part;
      part.right = width;
      part.bottom = height;
      return part;
    };
    decoder.decode_part(image, whole, size.width, size.height, pixels.data());
  }

  void make_raw(FieldView& image, const ImageInfo& info) {
    const ImageSize size = target(info);
    const ArrayType type{DType::kUInt8, {size.height, size.width, 3}};
    if (raw && *raw != type) {
      throw Error(ErrorCode::kUnsupported, {}, {},
                  "is " + std::to_string(size.width) + "x" + std::to_string(size.height) +
                      " pixels, those before it " + std::to_string(raw->shape[1]) + "x" +
                      std::to_string(raw->shape[0]),
                  "raw arrays need equal sizes: give --image-size WxH");
    }
    raw = type;
    decode(image.bytes, info, size);
    image = {kArrayField, std::as_bytes(std::span(pixels)), &*raw};
  }

  // Leaves the bytes as they are where nothing is to be done about them.
  void encode(FieldView& image, const ImageInfo& info) {
    const ImageSize size = target(info);
    const bool same_size = size.width == info.width && size.height == info.height;
    if (output == ImageOutput::kKeep && same_size) return;
    decode(image.bytes, info, size);
    EncodeOptions options;
    options.format = format_for(output, info.format);
    options.quality = quality;
    encode_image({pixels.data(), size.width, size.height, 3, 0}, options, encoded);
    image.bytes = encoded;
    if (!field_for(output).empty()) image.name = field_for(output);
  }
};

Transform::Transform(const ConvertOptions& options, std::optional<ArrayType> raw)
    : state_(std::make_unique<State>()) {
  state_->output = options.image_output;
  state_->exact = options.image_size;
  state_->shorter = options.image_shorter;
  state_->quality = options.quality;
  state_->check = options.check_decode;
  if (options.image_output != ImageOutput::kRaw) return;
  state_->raw = std::move(raw);
  if (const auto& size = options.image_size) {
    state_->raw = ArrayType{DType::kUInt8, {size->height, size->width, 3}};
  }
}

Transform::~Transform() = default;
Transform::Transform(Transform&&) noexcept = default;
Transform& Transform::operator=(Transform&&) noexcept = default;

bool Transform::changes() const noexcept {
  return state_->output != ImageOutput::kKeep || state_->resizes();
}

const std::optional<ArrayType>& Transform::raw() const noexcept { return state_->raw; }

void Transform::learn(const SampleView& sample, const std::string& path) {
  if (state_->output != ImageOutput::kRaw || state_->raw) return;
  for (const FieldView& field : sample.fields) {
    if (!is_main_image(field.name)) continue;
    try {
      const ImageSize size = state_->target(probe_image(field.bytes));
      state_->raw = ArrayType{DType::kUInt8, {size.height, size.width, 3}};
    } catch (const Error& error) {
      fail(error, path, sample.key, field.name);
    }
    return;
  }
}

std::vector<FieldSpec> Transform::fields(const std::vector<FieldSummary>& source,
                                         const std::string& path) const {
  std::vector<FieldSpec> fields;
  const bool raw = state_->output == ImageOutput::kRaw;
  const std::string_view made = field_for(state_->output);
  for (const FieldSummary& field : source) {
    if (!made.empty() && is_main_image(field.name)) continue;
    if (raw && field.name == kArrayField) {
      throw Error(ErrorCode::kUnsupported, path, "field \"npy\"",
                  "samples have this field already, decoded images cannot become it",
                  "convert without --image-format");
    }
    fields.push_back({field.name, field.kind, field.array.value_or(ArrayType{}), field.optional});
  }
  if (raw) {
    fields.push_back({std::string(kArrayField), FieldKind::kArray,
                      state_->raw.value_or(ArrayType{DType::kUInt8, {0}}), false});
  } else if (!made.empty()) {
    fields.push_back({std::string(made), FieldKind::kBytes, {}, false});
  }
  std::sort(fields.begin(), fields.end(),
            [](const FieldSpec& a, const FieldSpec& b) { return a.name < b.name; });
  return fields;
}

SampleView Transform::apply(const SampleView& sample, const std::string& path) {
  if (state_->check) {
    for (const FieldView& field : sample.fields) {
      if (!is_image_field(field.name) || field.array != nullptr) continue;
      try {
        state_->decoder.decode_full(field.bytes);
      } catch (const Error& error) {
        fail(error, path, sample.key, field.name);
      }
    }
  }
  if (!changes()) return sample;
  std::vector<FieldView>& views = state_->views;
  views.clear();
  bool found = false;
  for (const FieldView& field : sample.fields) {
    views.push_back(field);
    if (!is_main_image(field.name)) continue;
    if (found) {
      throw Error(ErrorCode::kUnsupported, path, sample_place(sample.key, field.name),
                  "a second image field, only one can be converted",
                  "convert samples that have one image field (--fields)");
    }
    found = true;
    try {
      const ImageInfo info = probe_image(field.bytes);
      state_->output == ImageOutput::kRaw ? state_->make_raw(views.back(), info)
                                          : state_->encode(views.back(), info);
    } catch (const Error& error) {
      fail(error, path, sample.key, field.name);
    }
  }
  if (!found && state_->output != ImageOutput::kKeep) {
    throw Error(ErrorCode::kUnsupported, path, sample_place(sample.key),
                "has no image field (jpg, jpeg, png, webp) to decode",
                "convert without --image-format");
  }
  std::sort(views.begin(), views.end(),
            [](const FieldView& a, const FieldView& b) { return a.name < b.name; });
  return {sample.key, views};
}

std::optional<ArrayType> raw_type(const std::vector<FieldSpec>& fields) {
  for (const FieldSpec& field : fields) {
    if (field.name == kArrayField && field.kind == FieldKind::kArray) return field.array;
  }
  return std::nullopt;
}

}  // namespace shardmill::internal
