// SPDX-License-Identifier: Apache-2.0
#include "tools/inspect_output.h"

#include <fmt/format.h>
#include <shardmill/formats/digest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace shardmill::tools {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShortText = 200;    // bytes of a payload that are shown as text
constexpr std::size_t kShownClasses = 10;  // names on the line for people

Json escaped(const std::vector<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) list.push_back(escape(text));
  return list;
}

void add_type(Json& json, const ArrayType& type) {
  json["dtype"] = dtype_name(type.dtype);
  json["shape"] = type.shape;
}

std::string type_text(const ArrayType& type) {
  std::string text(dtype_name(type.dtype));
  text += " [";
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    text += (i > 0 ? " x " : "") + std::to_string(type.shape[i]);
  }
  return text + "]";
}

bool is_short_text(Bytes bytes) {
  const std::string_view text = as_text(bytes);
  return text.size() <= kShortText && std::all_of(text.begin(), text.end(), [](char c) {
           return c == '\n' || c == '\t' || (c >= 0x20 && c < 0x7F);
         });
}

}  // namespace

Json to_json(const Inspection& inspection) {
  Json json = {{"format", inspection.format},
               {"layout", inspection.layout},
               {"kind_reason", inspection.kind_reason},
               {"order", inspection.order},
               {"shards", inspection.shards},
               {"samples", inspection.samples},
               {"bytes", inspection.bytes},
               {"classes", escaped(inspection.classes)}};
  json["fields"] = Json::array();
  for (const FieldSummary& field : inspection.fields) {
    Json entry = {{"name", escape(field.name)},   {"kind", field_kind_name(field.kind)},
                  {"bytes_min", field.bytes_min}, {"bytes_mean", field.bytes_mean()},
                  {"bytes_max", field.bytes_max}, {"samples", field.samples},
                  {"optional", field.optional}};
    if (field.array) add_type(entry, *field.array);
    json["fields"].push_back(std::move(entry));
  }
  json["warnings"] = escaped(inspection.warnings);
  return json;
}

void print_inspection(const Inspection& inspection, const std::string& spec, Console& console) {
  console.print(fmt::format("{}: {} ({}), {}", escape(spec), inspection.format, inspection.layout,
                            inspection.kind_reason));
  console.print(fmt::format("  {} samples in {} shards, {}, {}", human_count(inspection.samples),
                            human_count(inspection.shards), human_bytes(inspection.bytes),
                            inspection.order));
  if (!inspection.classes.empty()) {
    std::string names;
    for (std::size_t i = 0; i < std::min(kShownClasses, inspection.classes.size()); ++i) {
      names += (i > 0 ? ", " : "") + escape(inspection.classes[i]);
    }
    if (inspection.classes.size() > kShownClasses) names += ", ...";
    console.print(fmt::format("  {} classes: {}", inspection.classes.size(), names));
  }
  console.print(fmt::format("  {:<12} {:<6} {:>12} {:>12} {:>12} {:>12}", "field", "kind",
                            "samples", "bytes min", "mean", "max"));
  for (const FieldSummary& field : inspection.fields) {
    console.print(fmt::format("  {:<12} {:<6} {:>12} {:>12} {:>12.0f} {:>12}{}", escape(field.name),
                              field_kind_name(field.kind), field.samples, field.bytes_min,
                              field.bytes_mean(), field.bytes_max,
                              field.array ? "  " + type_text(*field.array) : std::string()));
  }
  for (const std::string& warning : inspection.warnings) {
    console.print("  warning: " + escape(warning));
  }
}

FieldSum sum_field(const FieldView& field) {
  if (field.array == nullptr) return {field.bytes.size(), sha256_hex(field.bytes)};
  const std::string header = npy_header(*field.array);
  Sha256 sum;
  sum.update(as_bytes(header));
  sum.update(field.bytes);
  return {header.size() + field.bytes.size(), sum.hex()};
}

Json to_json(const SampleView& sample, std::uint64_t number) {
  Json json = {{"number", number}, {"key", escape(sample.key)}, {"fields", Json::array()}};
  for (const FieldView& field : sample.fields) {
    const FieldSum sum = sum_field(field);
    Json entry = {{"name", escape(field.name)}, {"bytes", sum.bytes}};
    if (field.array != nullptr) add_type(entry, *field.array);
    entry["sha256"] = sum.sha256;
    if (field.array == nullptr && is_short_text(field.bytes)) {
      entry["text"] = std::string(as_text(field.bytes));
    }
    json["fields"].push_back(std::move(entry));
  }
  return json;
}

void print_sample(const SampleView& sample, std::uint64_t number, Console& console) {
  console.print(fmt::format("sample {}: {}", number, escape(sample.key)));
  for (const FieldView& field : sample.fields) {
    std::string what;
    if (field.array != nullptr) {
      what = type_text(*field.array);
    } else if (is_short_text(field.bytes)) {
      what = escape(as_text(field.bytes));
    }
    console.print(
        fmt::format("  {:<12} {:>12} bytes  {}", escape(field.name), field.bytes.size(), what));
  }
}

}  // namespace shardmill::tools
