// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/fields.h"

namespace shardmill::internal {

const FieldView* find_field(const SampleView& sample, const Output& output) noexcept {
  if (!output.field.empty()) return sample.find(output.field);
  for (const FieldView& field : sample.fields) {
    if (is_image_field(field.name)) return &field;
  }
  return nullptr;
}

Error missing_field(const SampleView& sample, const Output& output) {
  std::string names;
  for (const FieldView& field : sample.fields) {
    names += (names.empty() ? "" : ", ") + escape(field.name);
  }
  return Error(
      ErrorCode::kNotFound, {}, {},
      output.field.empty() ? "has no image field" : "has no field \"" + escape(output.field) + "\"",
      "fields of this sample: " + (names.empty() ? "none" : names) +
          "; declare the output as optional where samples may lack it");
}

bool is_array(const FieldView& field) noexcept {
  constexpr std::string_view kNpyMagic = "\x93NUMPY";
  return field.array != nullptr || as_text(field.bytes).starts_with(kNpyMagic);
}

NpyView array_of(const FieldView& field) {
  if (field.array == nullptr) return parse_npy(field.bytes, {}, {});
  NpyView view;
  view.type = *field.array;
  view.data = field.bytes;
  return view;
}

NpyView sequence_of(const FieldView& field, DType raw) {
  if (is_array(field)) {
    NpyView view = array_of(field);
    if (view.type.shape.size() == 1) return view;
    throw Error(ErrorCode::kInvalidArgument, {}, {},
                "is " + type_text(view.type) + ", not a sequence",
                "declare the output as an array");
  }
  NpyView view;
  const std::size_t size = dtype_size(raw);
  view.type = {raw, {field.bytes.size() / size}};
  view.data = field.bytes;
  if (field.bytes.size() % size == 0) return view;
  throw Error(ErrorCode::kInvalidArgument, {}, {},
              "has " + std::to_string(field.bytes.size()) +
                  " bytes, which are no whole elements of " + std::string(dtype_name(raw)),
              "declare the output with the dtype that was stored");
}

std::string type_text(const ArrayType& type) {
  std::string text(dtype_name(type.dtype));
  text += " (";
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(type.shape[i]);
  }
  return text + ")";
}

void refuse_type(const Output& output, const ArrayType& found) {
  std::string ways;
  switch (output.kind) {
    case OutputKind::kImage:
      ways = "resize images (image_output), pad them (padded_image_output) or take their bytes";
      break;
    case OutputKind::kTokens:
      ways = "pad sequences (padded_tokens_output), cut long ones (truncate) or take their bytes";
      break;
    default:
      ways = "store values of one type and shape, or take their bytes";
  }
  throw Error(ErrorCode::kInvalidArgument, {}, {},
              "is " + type_text(found) + ", the batch has rows of " +
                  (output.padding ? "at most " : "") + type_text(output.row) +
                  (output.like.empty() ? "" : " like " + output.like),
              ways);
}

}  // namespace shardmill::internal
