// SPDX-License-Identifier: Apache-2.0
#include <shardmill/converters/inspect.h>
#include <shardmill/formats/error.h>
#include <shardmill/loader/decode/image.h>
#include <shardmill/loader/decode/payload.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "converters/internal/field_scan.h"
#include "formats/internal/input_file.h"
#include "formats/internal/output_file.h"

namespace shardmill {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kProgressEvery = 256;  // samples

// Visits all samples; `visit` returns false to end early.
template <class Visit>
void visit_samples(DatasetReader& reader, std::string_view phase, const Observer& observer,
                   Visit visit) {
  Progress progress{phase, 0, reader.size(), 0, 0};
  SampleView sample;
  for (std::uint64_t n = 0; n < reader.size(); ++n) {
    if (n % kProgressEvery == 0) {
      if (observer.progress) observer.progress(progress);
      if (observer.stop.stop_requested()) throw Interrupted();
    }
    reader.peek(n, sample);
    if (!visit(n, sample)) return;
    ++progress.samples;
  }
}

// Returns the bytes of all shard files, or of the payloads where shards are folders.
std::uint64_t stored_bytes(const Dataset& dataset, std::uint64_t payloads) {
  std::uint64_t total = 0;
  for (const DatasetPart& part : dataset.parts()) {
    for (const DatasetShard& shard : part.shards) {
      const fs::path file = part.format->data_file(shard.path);
      if (file.empty()) return payloads;
      total += fs::file_size(file);
    }
  }
  return total;
}

}  // namespace

Inspection inspect(const Dataset& dataset, const Observer& observer) {
  internal::FieldScan scan;
  DatasetReader reader(dataset);
  visit_samples(reader, "inspecting", observer, [&](std::uint64_t, const SampleView& sample) {
    scan.add(sample);
    return true;
  });
  Inspection out;
  out.format = dataset.format().name();
  out.layout = dataset.info().layout;
  out.kind_reason = dataset.kind_reason();
  out.order = scan.class_sorted() ? "class-sorted" : "mixed";
  out.shards = dataset.shards().size();
  out.samples = dataset.size();
  out.bytes = stored_bytes(dataset, scan.bytes());
  out.classes = dataset.classes();
  out.fields = scan.fields();
  out.warnings = dataset.info().warnings;
  if (!dataset.manifest()) {  // which says itself that a field is optional
    for (const std::string& line : scan.lint()) out.warnings.push_back(line);
  }
  if (scan.empty_payloads() > 0) {
    out.warnings.push_back(std::to_string(scan.empty_payloads()) +
                           " payloads are empty (0 bytes), the first: " + scan.first_empty());
  }
  return out;
}

std::optional<std::string> describe_payload_file(const fs::path& file, bool hash) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return std::nullopt;
  internal::InputFile input(file, Access::kAuto);
  constexpr std::uint64_t kMagicBytes = 16;
  const Bytes head = input.bytes(0, std::min(kMagicBytes, input.size()));
  const bool image = sniff_image(head) != ImageFormat::kUnknown;
  if (!image && !as_text(head).starts_with("\x93NUMPY")) return std::nullopt;
  input.release();
  try {
    return describe_payload(input.bytes(0, input.size()), hash);
  } catch (const Error& failure) {
    ErrorInfo info = failure.info();
    if (info.path.empty()) info.path = file.string();
    throw Error(std::move(info));
  }
}

std::string describe_shard(const fs::path& file, bool hash) {
  for (const Format* format : all_formats()) {
    if (!format->recognises(file)) continue;
    nlohmann::ordered_json json = {{"format", format->name()}};
    json.update(nlohmann::ordered_json::parse(format->describe(file, hash)));
    return json.dump();
  }
  throw Error(ErrorCode::kUnsupported, file.string(), {},
              "no storage format recognises this file by its content",
              "give a tar, LMDB or HDF5 file, an image, an .npy file or a folder");
}

std::uint64_t find_sample(DatasetReader& reader, std::string_view which, const Observer& observer) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(which.data(), which.data() + which.size(), number);
  if (error == std::errc() && end == which.data() + which.size() && number < reader.size() &&
      std::to_string(number) == which) {
    return number;
  }
  std::optional<std::uint64_t> found;
  visit_samples(reader, "searching", observer, [&](std::uint64_t n, const SampleView& sample) {
    if (sample.key == which) found = n;
    return !found;
  });
  if (found) return *found;
  throw Error(ErrorCode::kNotFound, reader.dataset().spec(), sample_place(which),
              "there is no sample of this key or number among " + std::to_string(reader.size()),
              "shardmill inspect --list shows the keys");
}

std::vector<fs::path> extract_sample(const SampleView& sample, const fs::path& folder,
                                     const std::string& path) {
  std::vector<fs::path> files;
  for (const FieldView& field : sample.fields) {
    const std::string name = std::string(sample.key) + "." + std::string(field.name);
    std::string reason = unsafe_key_reason(name);
    if (reason.empty()) reason = unsafe_key_reason(sample.key);
    if (reason.empty() && field.name.find('/') != std::string_view::npos) reason = "holds a '/'";
    if (!reason.empty()) {
      throw Error(
          ErrorCode::kInvalidArgument, path, sample_place(sample.key, field.name),
          "the file name \"" + escape(name) + "\" " + reason + ", it could lie outside the folder",
          "nothing of this sample was written");
    }
    const fs::path& file = files.emplace_back(folder / name);
    std::error_code error;
    if (fs::exists(fs::symlink_status(file, error))) {
      throw Error(ErrorCode::kInvalidArgument, file.string(), {}, "this file exists already",
                  "extract into a new folder");
    }
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    const FieldView& field = sample.fields[i];
    std::error_code error;
    fs::create_directories(files[i].parent_path(), error);
    if (error) throw system_error(error.value(), files[i].parent_path().string(), "cannot create");
    internal::OutputFile out(files[i]);
    if (field.array != nullptr) out.write(as_bytes(npy_header(*field.array)));
    out.write(field.bytes);
    out.close();
  }
  return files;
}

}  // namespace shardmill
