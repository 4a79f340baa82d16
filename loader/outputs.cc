// SPDX-License-Identifier: Apache-2.0
#include <shardmill/loader/outputs.h>

#include <utility>
#include <vector>

namespace shardmill {

namespace {

Output make(std::string name, OutputKind kind, std::string field, ArrayType row) {
  Output output;
  output.name = std::move(name);
  output.kind = kind;
  output.field = std::move(field);
  output.row = std::move(row);
  return output;
}

}  // namespace

Output image_output(std::string name, std::uint32_t width, std::uint32_t height,
                    std::string field) {
  ArrayType row{DType::kUInt8, {}};
  if (width > 0 || height > 0) row.shape = {height, width, 3};
  return make(std::move(name), OutputKind::kImage, std::move(field), std::move(row));
}

Output fitted_image_output(std::string name, std::uint32_t width, std::uint32_t height, Fit fit,
                           std::string field) {
  Output output = image_output(std::move(name), width, height, std::move(field));
  output.fit = fit;
  return output;
}

Output random_crop_output(std::string name, std::uint32_t width, std::uint32_t height,
                          RandomCrop crop, std::string field) {
  Output output = image_output(std::move(name), width, height, std::move(field));
  output.crop = crop;
  return output;
}

Output padded_image_output(std::string name, std::uint32_t max_width, std::uint32_t max_height,
                           Padding padding, std::string field) {
  Output output = make(std::move(name), OutputKind::kImage, std::move(field),
                       {DType::kUInt8, {max_height, max_width, 3}});
  output.padding = padding;
  return output;
}

Output with_pixels(Output output, const PixelForm& form) {
  // As declared so far: channels first or last.
  const std::vector<std::uint64_t> shape = output.row.shape;
  const std::size_t first = output.pixels.channels_first ? 1 : 0;
  output.pixels = form;
  output.row.dtype = form.dtype;
  if (shape.size() == 3) output.row = form.row(shape[first + 1], shape[first]);
  return output;
}

Output mask_output(std::string name, std::string field, std::string image, DType dtype,
                   std::int64_t border) {
  Output output = make(std::move(name), OutputKind::kMask, std::move(field), {dtype, {}});
  output.image = std::move(image);
  output.border = border;
  return output;
}

Output geometry_output(std::string name, std::string image) {
  constexpr std::uint64_t kNumbers = 8;
  Output output = make(std::move(name), OutputKind::kGeometry, {}, {DType::kFloat32, {kNumbers}});
  output.image = std::move(image);
  return output;
}

Output class_output(std::string name, std::string field) {
  return make(std::move(name), OutputKind::kClass, std::move(field), {DType::kInt64, {}});
}

Output scalar_output(std::string name, std::string field, DType dtype) {
  return make(std::move(name), OutputKind::kScalar, std::move(field), {dtype, {}});
}

Output array_output(std::string name, std::string field) {
  return make(std::move(name), OutputKind::kArray, std::move(field), {});
}

Output tokens_output(std::string name, std::string field, std::uint64_t length, DType dtype) {
  return make(std::move(name), OutputKind::kTokens, std::move(field), {dtype, {length}});
}

Output padded_tokens_output(std::string name, std::string field, std::uint64_t max_length,
                            Padding padding, DType dtype) {
  Output output = tokens_output(std::move(name), std::move(field), max_length, dtype);
  output.padding = padding;
  return output;
}

Output ragged_tokens_output(std::string name, std::string field, DType dtype) {
  return make(std::move(name), OutputKind::kTokens, std::move(field), {dtype, {}});
}

Output bytes_output(std::string name, std::string field) {
  return make(std::move(name), OutputKind::kBytes, std::move(field), {});
}

Output list_output(std::string name, std::string field) {
  Output output = bytes_output(std::move(name), std::move(field));
  output.list_view = true;
  return output;
}

Output computed_output(std::string name, ArrayType row, RowFunction compute) {
  Output output = make(std::move(name), OutputKind::kComputed, {}, std::move(row));
  output.compute = std::move(compute);
  return output;
}

Output optional_output(Output output) {
  output.optional = true;
  return output;
}

}  // namespace shardmill
