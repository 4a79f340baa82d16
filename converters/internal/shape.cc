// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/shape.h"

#include <shardmill/formats/error.h>

#include <algorithm>

#include "formats/internal/view.h"

namespace shardmill::internal {

namespace {
constexpr std::string_view kClass = "cls";
}

Shape::Shape(const ConvertOptions& options, std::vector<std::int64_t> numbers)
    : options_(options), numbers_(std::move(numbers)) {
  identity_ = options.rename.empty() && options.fields.empty() && numbers_.empty();
}

std::string_view Shape::name_of(std::string_view field) const noexcept {
  for (const auto& [from, to] : options_.rename) {
    if (from == field) return to;
  }
  return field;
}

bool Shape::wanted(std::string_view field) const noexcept {
  return options_.fields.empty() ||
         std::find(options_.fields.begin(), options_.fields.end(), field) != options_.fields.end();
}

void Shape::apply(SampleView& sample, const std::string& path) {
  if (identity_) return;
  fields_.clear();
  for (const FieldView& field : sample.fields) {
    FieldView renamed = field;
    renamed.name = name_of(field.name);
    if (!wanted(renamed.name)) continue;
    if (renamed.name == kClass) set_class(renamed, sample, path);
    fields_.push_back(renamed);
  }
  std::sort(fields_.begin(), fields_.end(),
            [](const FieldView& a, const FieldView& b) { return a.name < b.name; });
  for (std::size_t i = 1; i < fields_.size(); ++i) {
    if (fields_[i].name != fields_[i - 1].name) continue;
    throw Error(ErrorCode::kInvalidArgument, "--rename", {},
                "two fields would be called \"" + escape(fields_[i].name) + "\"",
                "choose other names");
  }
  sample.fields = fields_;
}

// An array of one integer becomes a class number; numbers of the source become those of --classes.
void Shape::set_class(FieldView& field, const SampleView& sample, const std::string& path) {
  const bool array = field.array != nullptr || as_text(field.bytes).starts_with("\x93NUMPY");
  if (!array && numbers_.empty()) return;
  const auto number = label_number(field);
  if (!number) {
    if (numbers_.empty()) return;
    throw Error(ErrorCode::kDataLoss, path, sample_place(sample.key, kClass), "is no class number",
                "repair this sample, or convert without --classes");
  }
  std::int64_t value = *number;
  if (!numbers_.empty()) {
    if (value < 0 || static_cast<std::uint64_t>(value) >= numbers_.size()) {
      throw Error(ErrorCode::kDataLoss, path, sample_place(sample.key, kClass),
                  "class " + std::to_string(value) + " is not one of the source's " +
                      std::to_string(numbers_.size()),
                  "repair this sample, or convert without --classes");
    }
    value = numbers_[static_cast<std::size_t>(value)];
  }
  class_text_ = std::to_string(value);
  field.bytes = as_bytes(class_text_);
  field.array = nullptr;
}

}  // namespace shardmill::internal
