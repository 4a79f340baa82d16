// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/member_name.h"

#include <shardmill/formats/error.h>

#include <algorithm>

namespace shardmill::internal {

namespace {

bool equal_ignoring_case(std::string_view text, std::string_view lower) noexcept {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + 32) : a) == b;
  });
}

bool has_upper_case(std::string_view text) noexcept {
  return std::any_of(text.begin(), text.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

// Throws unless a reader would find KEY again from KEY.FIELD.
void check_key_as_name(std::string_view key, const std::string& path) {
  const std::string unsafe = unsafe_key_reason(key);
  if (!unsafe.empty()) {
    throw Error(ErrorCode::kInvalidArgument, path, sample_place(key), "key " + unsafe,
                "rename the sample");
  }
  const auto refuse = [&](const std::string& cause) {
    throw Error(ErrorCode::kUnsupported, path, sample_place(key), cause,
                "rename the sample, or choose a format that stores keys apart (lmdb, hdf5)");
  };
  const std::string_view base = base_name(key);
  if (base.front() == '.') refuse("the key's last part begins with a dot: readers skip such names");
  if (base.find('.') != std::string_view::npos) {
    refuse("the key's last part has a dot: it would be read back as another key");
  }
}

void check_field_as_name(const SampleView& sample, std::string_view field,
                         const std::string& path) {
  const auto refuse = [&](ErrorCode code, const std::string& cause) {
    throw Error(code, path, sample_place(sample.key, field), cause, "rename the field");
  };
  if (field.empty()) refuse(ErrorCode::kInvalidArgument, "a field has an empty name");
  if (field.find('\0') != std::string_view::npos) {
    refuse(ErrorCode::kInvalidArgument, "the field's name holds a NUL byte");
  }
  if (field.find('/') != std::string_view::npos) {
    refuse(ErrorCode::kUnsupported, "the field's name holds a '/'");
  }
  if (has_upper_case(field)) {
    refuse(ErrorCode::kUnsupported,
           "the field's name has capital letters: readers turn it to lower case");
  }
}

}  // namespace

std::string_view base_name(std::string_view path) noexcept {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

void lower_case(std::string& text) noexcept {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
}

bool is_junk_name(std::string_view base) noexcept {
  return base.starts_with('.') || base == "__MACOSX" || equal_ignoring_case(base, "thumbs.db") ||
         equal_ignoring_case(base, "desktop.ini");
}

bool is_metadata_member(std::string_view name) noexcept {
  while (name.starts_with("./")) name.remove_prefix(2);
  std::size_t begin = 0;
  for (bool first = true;; first = false) {
    const std::size_t slash = name.find('/', begin);
    const std::string_view part = name.substr(begin, slash - begin);
    if (first && part.size() >= 4 && part.starts_with("__") && part.ends_with("__")) return true;
    if (slash == std::string_view::npos) return part.starts_with('.');
    if (part == "__MACOSX" || part.starts_with("PaxHeader")) return true;
    begin = slash + 1;
  }
}

void plan_members(const SampleView& sample, const std::string& path,
                  std::vector<MemberValue>& out) {
  check_key_as_name(sample.key, path);
  if (sample.fields.empty()) {
    throw Error(ErrorCode::kUnsupported, path, sample_place(sample.key),
                "a sample without fields leaves no file behind", "add a field");
  }
  out.resize(sample.fields.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const FieldView& field = sample.fields[i];
    check_field_as_name(sample, field.name, path);
    MemberValue& value = out[i];
    value.field = field.name;
    value.bytes = field.bytes;
    value.header.clear();
    if (field.array == nullptr) continue;
    value.header = npy_header(*field.array);
    if (field.name != "npy" && !field.name.ends_with(".npy")) value.field += ".npy";
  }
  std::sort(out.begin(), out.end(),
            [](const MemberValue& a, const MemberValue& b) { return a.field < b.field; });
  const auto twice = std::adjacent_find(
      out.begin(), out.end(),
      [](const MemberValue& a, const MemberValue& b) { return a.field == b.field; });
  if (twice != out.end()) {
    throw Error(ErrorCode::kInvalidArgument, path, sample_place(sample.key, twice->field),
                "duplicate field", "rename one of the fields");
  }
}

}  // namespace shardmill::internal
