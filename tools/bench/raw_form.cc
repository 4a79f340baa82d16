// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/raw_form.h"

#include <shardmill/converters/convert.h>
#include <shardmill/converters/verify.h>
#include <shardmill/formats/dataset.h>
#include <shardmill/formats/error.h>
#include <stdlib.h>

#include <cerrno>

namespace shardmill::tools::bench {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kSeed = 1;

// Writes `source`, or a part of it, as `format`; returns how long that took.
double convert_to(const std::string& source, const fs::path& destination, const std::string& format,
                  std::uint64_t limit, const Observer& observer) {
  ConvertOptions options;
  options.sources = {source};
  options.destination = destination;
  options.format = format;
  options.shuffle = kSeed;
  options.limit = limit;
  return convert(options, observer).seconds;
}

void verify_same(const std::string& source, const std::string& converted,
                 const Observer& observer) {
  const VerifyReport report = verify_equal(source, converted, {}, observer);
  if (report.ok()) return;
  const std::string cause = !report.damaged.empty() ? report.damaged.front().cause
                            : report.differences.empty()
                                ? std::string("is damaged or differs from the source")
                                : report.differences.front().cause;
  throw Error(ErrorCode::kDataLoss, converted, "after conversion", cause,
              "check the source with shardmill verify");
}

}  // namespace

WorkFolder::WorkFolder(fs::path parent) {
  if (parent.empty()) parent = fs::temp_directory_path();
  std::string name = (parent / "shardmill-bench.XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw system_error(errno, parent.string(), "cannot make a work folder");
  }
  path_ = name;
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<Subject> convert_subjects(const Settings& settings, const WorkFolder& work,
                                      const Observer& observer) {
  const std::string raw = settings.datasets.front();
  const Dataset dataset = Dataset::open(raw);
  const bool part = settings.limit > 0 && dataset.size() > settings.limit;
  const std::uint64_t limit = part ? settings.limit : 0;
  std::string source = raw;
  if (part) {
    source = (work.path() / "source").string();
    convert_to(raw, source, std::string(dataset.format().name()), limit, observer);
  }
  std::vector<Subject> subjects = {make_subject(source, settings, observer)};
  subjects.front().name = raw;
  for (const std::string& format : settings.formats) {
    const fs::path destination = work.path() / format;
    const double seconds = convert_to(source, destination, format, 0, observer);
    verify_same(source, destination.string(), observer);
    Subject subject = make_subject(destination.string(), settings, observer);
    subject.name = format;
    subject.convert_seconds = seconds;
    subjects.push_back(std::move(subject));
  }
  return subjects;
}

}  // namespace shardmill::tools::bench
