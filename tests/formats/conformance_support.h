// SPDX-License-Identifier: Apache-2.0
// Samples and helpers of the tests that run on all_formats().
#pragma once

#include <shardmill/formats/digest.h>
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/support/catch.h"
#include "tests/support/support.h"

namespace shardmill::test {

namespace fs = std::filesystem;
using Fields = std::map<std::string, std::string>;
using Samples = std::map<std::string, Fields>;

inline const ArrayType kArrayType{DType::kUInt16, {2, 3}};
inline const std::string kElements = "0123456789ab";

// Bytes that look random, the same every time.
inline std::string noise(std::size_t size, std::uint32_t seed) {
  std::string text(size, '\0');
  for (char& c : text) {
    seed = seed * 1664525u + 1013904223u;
    c = static_cast<char>(seed >> 24);
  }
  return text;
}

inline Sample make(const std::string& key, const Fields& fields) {
  Sample sample(key);
  for (const auto& [name, text] : fields) sample.add(name, text);
  return sample;
}

inline std::vector<Sample> odd_samples() {
  std::vector<Sample> samples;
  samples.push_back(make("plain", {{"jpg", noise(1000, 1)}, {"cls", "3"}}));
  samples.push_back(make("empty field", {{"cls", "0"}, {"txt", ""}}));
  samples.push_back(make("no label", {{"jpg", noise(513, 2)}}));
  samples.push_back(
      make("a folder/with spaces/\xc3\xa9\xe5\x90\x8d", {{"txt", "x"}, {"cls", "7"}}));
  samples.push_back(make(std::string(150, 'd') + "/" + std::string(90, 'k'), {{"txt", "long"}}));
  samples.push_back(make("large", {{"bin", noise((3 << 20) + 7, 3)}, {"cls", "1"}}));
  Fields many;
  for (int i = 0; i < 40; ++i)
    many["f" + std::to_string(i)] = noise(static_cast<std::size_t>(i), 4);
  samples.push_back(make("many", many));
  samples.push_back(make("parts", {{"seg.png", noise(20, 5)}, {"jpg", ""}, {"json", "{}"}}));
  Sample array("array");
  array.add("npy", as_bytes(kElements), &kArrayType);
  array.add("cls", "2");
  samples.push_back(std::move(array));
  samples.push_back(make("stored npy", {{"mask.npy", npy_header(kArrayType) + kElements}}));
  return samples;
}

inline std::vector<Sample> small_samples() {
  std::vector<Sample> samples;
  for (std::uint32_t i = 0; i < 12; ++i) {
    samples.push_back(make("s" + std::to_string(100 + i), {{"jpg", noise(300 + 40 * i, i)},
                                                           {"cls", std::to_string(i % 3)},
                                                           {"txt", i % 4 == 0 ? "" : "text"}}));
  }
  return samples;
}

// Describes the fields of samples as a converter does, for the formats with columns.
inline WriteOptions options_for(const std::vector<Sample>& samples) {
  std::map<std::string, std::size_t> counts;
  std::set<std::string> arrays;
  for (const Sample& sample : samples) {
    const SampleView view = sample.view();
    for (const FieldView& field : view.fields) {
      ++counts[std::string(field.name)];
      if (field.array != nullptr) arrays.insert(std::string(field.name));
    }
  }
  WriteOptions options;
  options.samples = samples.size();
  for (const auto& [name, count] : counts) {
    FieldSpec spec;
    spec.name = name;
    if (name == "cls") spec.kind = FieldKind::kClass;
    if (arrays.count(name) > 0) {
      spec.kind = FieldKind::kArray;
      spec.array = kArrayType;
    }
    spec.optional = count < samples.size();
    options.fields.push_back(std::move(spec));
  }
  return options;
}

inline fs::path shard_path(const fs::path& folder, const Format& format) {
  return folder / ("shard" + std::string(format.suffix()));
}

inline void write(const Format& format, const fs::path& path, const std::vector<Sample>& samples) {
  const auto writer = format.create(path, options_for(samples));
  for (const Sample& sample : samples) writer->write(sample.view());
  writer->close();
}

// Returns the fields as text; arrays as .npy bytes, whether the format stores numbers or files.
inline Fields fields_of(const SampleView& view) {
  Fields fields;
  for (const FieldView& field : view.fields) {
    std::string& text = fields[std::string(field.name)];
    if (field.array != nullptr) text = npy_header(*field.array);
    text += as_text(field.bytes);
  }
  return fields;
}

inline Samples expected(const std::vector<Sample>& samples) {
  Samples all;
  for (const Sample& sample : samples) all[sample.key()] = fields_of(sample.view());
  return all;
}

inline Samples read_all(Reader& reader) {
  Samples all;
  SampleView view;
  for (std::uint64_t n = 0; n < reader.size(); ++n) {
    reader.will_need(n);
    reader.read(n, view);
    all[std::string(view.key)] = fields_of(view);
  }
  return all;
}

inline Digest digest_of(Reader& reader) {
  SampleHasher hasher;
  Digest sum;
  SampleView view;
  for (std::uint64_t n = 0; n < reader.size(); ++n) {
    reader.read(n, view);
    sum += hasher.hash(view);
  }
  return sum;
}

// All files below `folder` by their relative names.
inline std::map<std::string, std::string> files_below(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      files[fs::relative(entry.path(), folder).string()] = read_text(entry.path());
    }
  }
  return files;
}

inline std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

// Names the format in what a failed check prints.
#define FOR_EACH_FORMAT(format) \
  for (const Format* format : all_formats()) SECTION(std::string((format)->name()))

}  // namespace shardmill::test
