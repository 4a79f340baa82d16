// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>
#include <shardmill/formats/sample.h>

#include <algorithm>

namespace shardmill {

const FieldView* SampleView::find(std::string_view name) const noexcept {
  for (const FieldView& field : fields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

Sample::Sample(const SampleView& view) : key_(view.key) {
  for (const FieldView& field : view.fields) add(field.name, field.bytes, field.array);
}

void Sample::add(std::string_view name, Bytes bytes, const ArrayType* array) {
  const auto at = std::lower_bound(fields_.begin(), fields_.end(), name,
                                   [](const Owned& f, std::string_view n) { return f.name < n; });
  if (at != fields_.end() && at->name == name) {
    throw Error(ErrorCode::kInvalidArgument, {}, sample_place(key_, name), "duplicate field");
  }
  Owned owned{std::string(name), {bytes.begin(), bytes.end()}, nullptr};
  if (array != nullptr) owned.array = std::make_unique<ArrayType>(*array);
  fields_.insert(at, std::move(owned));
}

SampleView Sample::view() const {
  views_.clear();
  for (const Owned& field : fields_) {
    views_.push_back({field.name, field.bytes, field.array.get()});
  }
  return {key_, views_};
}

void check_key(std::string_view key, const std::string& path) {
  std::string cause;
  if (key.empty()) cause = "empty key";
  if (key.find('\0') != std::string_view::npos) cause = "key holds a NUL byte";
  if (!cause.empty()) {
    throw Error(ErrorCode::kInvalidArgument, path, sample_place(key), cause, "rename the sample");
  }
}

std::string unsafe_key_reason(std::string_view key) {
  if (key.empty()) return "is empty";
  if (key.find('\0') != std::string_view::npos) return "holds a NUL byte";
  if (key.front() == '/') return "begins with '/'";
  for (std::size_t begin = 0; begin <= key.size();) {
    const std::size_t end = std::min(key.find('/', begin), key.size());
    const std::string_view component = key.substr(begin, end - begin);
    if (component.empty()) return "has an empty path component";
    if (component == "." || component == "..")
      return "has a '" + std::string(component) + "' component";
    begin = end + 1;
  }
  return {};
}

bool split_member_name(std::string_view name, std::string_view& key, std::string_view& field) {
  const std::size_t slash = name.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t dot = name.find('.', base);
  if (dot == std::string_view::npos || dot == base) return false;
  key = name.substr(0, dot);
  field = name.substr(dot + 1);
  return true;
}

bool is_image_field(std::string_view field) noexcept {
  const std::size_t dot = field.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? field : field.substr(dot + 1);
  return last == "jpg" || last == "jpeg" || last == "png" || last == "webp";
}

}  // namespace shardmill
