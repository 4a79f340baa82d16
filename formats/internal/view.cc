// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/view.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

namespace shardmill::internal {

namespace {

using Json = nlohmann::json;

constexpr double kExact = 9007199254740992.0;  // 2^53: doubles below are whole numbers exactly

template <class T>
T element(Bytes bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::optional<std::int64_t> whole(double value) {
  if (!(std::fabs(value) <= kExact) || value != std::floor(value)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

// The one element of an array, little-endian, as an integer.
std::optional<std::int64_t> whole_element(DType dtype, Bytes bytes) {
  if (bytes.size() < dtype_size(dtype)) return std::nullopt;
  switch (dtype) {
    case DType::kUInt8:
    case DType::kBool:
      return element<std::uint8_t>(bytes);
    case DType::kInt8:
      return element<std::int8_t>(bytes);
    case DType::kUInt16:
      return element<std::uint16_t>(bytes);
    case DType::kInt16:
      return element<std::int16_t>(bytes);
    case DType::kUInt32:
      return element<std::uint32_t>(bytes);
    case DType::kInt32:
      return element<std::int32_t>(bytes);
    case DType::kUInt64: {
      const auto value = element<std::uint64_t>(bytes);
      if (value >> 63 != 0) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    case DType::kInt64:
      return element<std::int64_t>(bytes);
    case DType::kFloat32:
      return whole(element<float>(bytes));
    case DType::kFloat64:
      return whole(element<double>(bytes));
    case DType::kFloat16:
    case DType::kComplex64:
    case DType::kComplex128:
      break;
  }
  return std::nullopt;
}

std::optional<std::int64_t> decimal(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

std::optional<std::int64_t> npy_number(Bytes bytes) {
  const NpyView npy = parse_npy(bytes, {}, {});
  if (npy.type.elements() != 1 || npy.data.size() > 16) return std::nullopt;
  std::byte canonical[16];
  canonical_elements(npy, canonical);
  return whole_element(npy.type.dtype, {canonical, npy.data.size()});
}

[[noreturn]] void no_class(std::string_view key, const FieldRule& rule, const std::string& what) {
  throw Error(ErrorCode::kDataLoss, {}, sample_place(key, rule.from), what,
              "make the index again with shardmill index");
}

}  // namespace

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::optional<std::int64_t> label_number(const FieldView& field) {
  if (field.array != nullptr) {
    if (field.array->elements() != 1) return std::nullopt;
    return whole_element(field.array->dtype, field.bytes);
  }
  if (as_text(field.bytes).starts_with("\x93NUMPY")) return npy_number(field.bytes);
  return decimal(trimmed(as_text(field.bytes)));
}

std::optional<JsonLabel> label_at(Bytes bytes, const std::string& pointer) {
  const std::string_view text = as_text(bytes);
  const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded()) throw Error(ErrorCode::kDataLoss, {}, {}, "malformed JSON");
  const Json* at = nullptr;
  try {
    const Json::json_pointer path(pointer);
    if (!json.contains(path)) return std::nullopt;
    at = &json.at(path);
  } catch (const Json::exception&) {
    return std::nullopt;  // for example a text where the pointer goes on
  }
  if (at->is_boolean()) return JsonLabel{at->get<bool>() ? 1 : 0, {}};
  if (at->is_number_integer()) return JsonLabel{at->get<std::int64_t>(), {}};
  if (at->is_number_float()) return JsonLabel{whole(at->get<double>()), at->dump()};
  if (at->is_string()) {
    std::string value = at->get<std::string>();
    return JsonLabel{decimal(trimmed(value)), std::move(value)};
  }
  return std::nullopt;
}

View::View(const std::vector<FieldRule>& rules, const std::vector<std::string>& classes)
    : rules_(rules), texts_(rules.size()), squeezed_(rules.size()) {
  for (std::size_t i = 0; i < classes.size(); ++i) {
    class_numbers_.emplace(classes[i], static_cast<std::int64_t>(i));
  }
}

void View::apply(std::span<const SampleView> parts, std::size_t shard, SampleView& out) {
  fields_.clear();
  for (std::size_t i = 0; i < rules_.size(); ++i) add(rules_[i], i, parts, shard);
  out.key = parts[0].key;
  out.fields = fields_;
}

void View::add(const FieldRule& rule, std::size_t number, std::span<const SampleView> parts,
               std::size_t shard) {
  if (rule.value == FieldValue::kShard) {
    texts_[number] = std::to_string(rule.numbers[shard]);
    return fields_.push_back({rule.name, as_bytes(texts_[number])});
  }
  const FieldView* field = parts[rule.part].find(rule.from);
  if (field == nullptr) return;  // this sample lacks it
  switch (rule.value) {
    case FieldValue::kAsStored:
      return fields_.push_back({rule.name, field->bytes, field->array});
    case FieldValue::kSqueezed:
      return fields_.push_back({rule.name, field->bytes, squeezed(number, field->array)});
    case FieldValue::kNumber:
    case FieldValue::kName:
    case FieldValue::kShard:
      break;
  }
  texts_[number] = std::to_string(class_number(rule, *field, parts[0].key));
  fields_.push_back({rule.name, as_bytes(texts_[number])});
}

std::int64_t View::class_number(const FieldRule& rule, const FieldView& field,
                                std::string_view key) const {
  std::optional<std::int64_t> number;
  std::string text;
  try {
    if (rule.pointer.empty()) {
      if (rule.value == FieldValue::kNumber) number = label_number(field);
      if (rule.value == FieldValue::kName) text = trimmed(as_text(field.bytes));
    } else if (auto label = label_at(field.bytes, rule.pointer)) {
      number = label->number;
      text = std::move(label->text);
    } else {
      no_class(key, rule, "has no label at " + escape(rule.pointer));
    }
  } catch (const Error& error) {
    if (!error.info().place.empty()) throw;
    no_class(key, rule, error.info().cause);
  }
  if (rule.value == FieldValue::kName) {
    if (text.empty() && number) text = std::to_string(*number);
    const auto at = class_numbers_.find(text);
    if (at == class_numbers_.end()) {
      no_class(key, rule, "\"" + escape(text) + "\" is none of the classes");
    }
    return at->second;
  }
  if (!number) no_class(key, rule, "is no class number");
  if (rule.numbers.empty()) return *number;
  if (*number < 0 || *number >= static_cast<std::int64_t>(rule.numbers.size())) {
    no_class(key, rule, std::to_string(*number) + " is none of the classes");
  }
  return rule.numbers[static_cast<std::size_t>(*number)];
}

const ArrayType* View::squeezed(std::size_t rule, const ArrayType* type) {
  if (type == nullptr) return nullptr;
  std::deque<Squeezed>& known = squeezed_[rule];
  // A deque: lent types stay where they are. Readers lend one type per field and shard.
  for (const Squeezed& entry : known) {
    if (entry.from == type) return &entry.type;
  }
  Squeezed& entry = known.emplace_back(Squeezed{type, *type});
  std::erase(entry.type.shape, 1);
  return &entry.type;
}

}  // namespace shardmill::internal
