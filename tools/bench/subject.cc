// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/subject.h"

#include <shardmill/formats/dataset.h>
#include <shardmill/formats/digest.h>
#include <shardmill/formats/error.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

namespace shardmill::tools::bench {

namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kReadAtMost{20};
constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kCheckEvery = 64;  // samples

void add_files(const fs::path& path, Subject& subject) {
  const auto add = [&](const fs::path& file) {
    subject.stored_bytes += fs::file_size(file);
    ++subject.files;
  };
  if (!fs::is_directory(path)) return add(path);
  for (const auto& entry :
       fs::recursive_directory_iterator(path, fs::directory_options::follow_directory_symlink)) {
    if (entry.is_regular_file()) add(entry.path());
  }
}

// Reads every page, so that they come from memory when it counts.
unsigned touch(const SampleView& sample) {
  unsigned sum = 0;
  for (const FieldView& field : sample.fields) {
    for (std::size_t at = 0; at < field.bytes.size(); at += kPage) {
      sum += static_cast<unsigned>(field.bytes[at]);
    }
  }
  return sum;
}

bool same_fields(const SampleView& sample, const std::vector<std::string>& names) {
  return std::equal(
      sample.fields.begin(), sample.fields.end(), names.begin(), names.end(),
      [](const FieldView& field, const std::string& name) { return field.name == name; });
}

// What reading all samples showed.
struct Reading {
  bool complete = false;  // the digest is in the subject
  bool uniform = true;    // all samples have the same fields
};

Reading read_all(DatasetReader& reader, bool hash, Subject& subject, const Observer& observer) {
  Reading reading;
  std::vector<std::string> names;
  const auto begin = Clock::now();
  SampleHasher hasher;
  Digest digest;
  volatile unsigned sink = 0;
  std::uint64_t bytes = 0;
  SampleView sample;
  for (std::uint64_t n = 0; n < reader.size(); ++n) {
    reader.read(n, sample);
    if (n == 0) {
      for (const FieldView& field : sample.fields) names.emplace_back(field.name);
    }
    reading.uniform = reading.uniform && same_fields(sample, names);
    if (hash) {
      digest += hasher.hash(sample);
    } else {
      sink = sink + touch(sample);
    }
    for (const FieldView& field : sample.fields) bytes += field.bytes.size();
    if (n % kCheckEvery != 0) continue;
    check_in(observer, "reading", n, bytes);
    if (Clock::now() - begin > kReadAtMost) return reading;
  }
  reading.complete = true;
  if (hash) subject.content_digest = digest.hex();
  return reading;
}

// `uniform`: what the loader infers from the first sample fits all of them.
void choose_outputs(DatasetReader& reader, const Settings& settings, bool uniform,
                    Subject& subject) {
  SampleView sample;
  reader.read(0, sample);
  bool image = false;
  for (const FieldView& field : sample.fields) image = image || is_image_field(field.name);
  subject.decode = settings.decode.value_or(Decode{.none = !image});
  if (subject.decode.none && (uniform || !image)) return;
  if (!image) {
    throw Error(ErrorCode::kInvalidArgument, subject.name, {},
                "has no image field that --decode " + subject.decode.text() + " could decode",
                "use --decode none");
  }
  subject.outputs = {subject.decode.none
                         ? bytes_output("image", {})
                         : image_output("image", subject.decode.width, subject.decode.height)};
  if (sample.find("cls") != nullptr) subject.outputs.push_back(class_output());
}

}  // namespace

Subject make_subject(const std::string& spec, const Settings& settings, const Observer& observer) {
  const Dataset dataset = Dataset::open(spec);
  Subject subject;
  subject.name = subject.spec = spec;
  subject.format = dataset.format().name();
  subject.samples = dataset.size();
  if (dataset.size() == 0) {
    throw Error(ErrorCode::kInvalidArgument, spec, {}, "the dataset holds no samples",
                "check the path with shardmill inspect");
  }
  for (const DatasetPart& part : dataset.parts()) {
    for (const DatasetShard& shard : part.shards) {
      const fs::path file = part.format->data_file(shard.path);
      add_files(file.empty() || fs::is_directory(shard.path) ? shard.path : file, subject);
    }
  }
  if (dataset.manifest()) subject.content_digest = dataset.manifest()->content_digest;
  DatasetReader reader(dataset);
  const Reading reading = read_all(reader, subject.content_digest.empty(), subject, observer);
  choose_outputs(reader, settings, reading.uniform, subject);
  if (!reading.complete && observer.warning) {
    observer.warning(spec + ": too large to be read into memory first; the disk may bind");
  }
  return subject;
}

void check_equal_content(const std::vector<Subject>& subjects, const Observer& observer) {
  const Subject& first = subjects.front();
  for (const Subject& subject : subjects) {
    const bool known = !first.content_digest.empty() && !subject.content_digest.empty();
    if (subject.samples != first.samples ||
        (known && subject.content_digest != first.content_digest)) {
      throw Error(ErrorCode::kInvalidArgument, subject.name, {},
                  "holds other samples than " + first.name + " (" +
                      std::to_string(subject.samples) + " and " + std::to_string(first.samples) +
                      " samples)",
                  "compare datasets of equal content, or add --allow-different");
    }
    if (!known && &subject != &first && observer.warning) {
      observer.warning(subject.name + ": not known to hold the same samples as " + first.name +
                       "; shardmill verify tells");
    }
  }
}

}  // namespace shardmill::tools::bench
