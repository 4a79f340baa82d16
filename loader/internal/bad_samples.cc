// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/bad_samples.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>

#include "loader/internal/warn.h"

namespace shardmill::internal {

namespace {

constexpr std::uint64_t kWarnings = 10;  // in an epoch; the log has them all

std::string log_line(const BadSample& bad) {
  const SamplePlace place = parse_sample_place(bad.error.place);
  nlohmann::json line = {
      {"epoch", bad.epoch},       {"position", bad.position},
      {"sample", bad.sample},     {"shard", bad.error.path},
      {"key", nullptr},           {"field", nullptr},
      {"place", bad.error.place}, {"code", error_code_name(bad.error.code)},
      {"cause", bad.error.cause}, {"action", bad.replaced ? "replaced" : "skipped"}};
  if (!place.key.empty()) line["key"] = place.key;
  if (!place.field.empty()) line["field"] = place.field;
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

BadSampleLedger::BadSampleLedger(const LoaderOptions& options) : options_(options) {
  const std::string& path = options.bad_sample_log;
  if (path.empty() || options.bad_samples == BadSamples::kFail) return;
  // Appending writes of one line each: several ranks may share a file.
  log_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (log_ < 0) throw system_error(errno, path, "cannot open the log of bad samples");
}

BadSampleLedger::~BadSampleLedger() {
  if (log_ >= 0) close(log_);
}

void BadSampleLedger::begin_epoch(std::uint64_t rows) noexcept {
  in_epoch_ = 0;
  const double share = std::ceil(options_.max_bad_fraction * static_cast<double>(rows));
  allowed_ = std::min(options_.max_bad_samples, static_cast<std::uint64_t>(share));
}

void BadSampleLedger::add(const BadSample& bad) {
  ++total_;
  ++in_epoch_;
  if (log_ >= 0) {
    const std::string line = log_line(bad);
    if (write(log_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      warn_once("cannot write to " + options_.bad_sample_log + ": bad samples go unlogged");
    }
  }
  if (in_epoch_ > allowed_) {
    throw Error(ErrorCode::kResourceExhausted, bad.error.path, bad.error.place,
                "one bad sample too many: " + std::to_string(in_epoch_) + " in this epoch, " +
                    std::to_string(allowed_) +
                    " are allowed by max_bad_samples and max_bad_fraction; this one's cause: " +
                    bad.error.cause,
                "look at the data with shardmill verify, or raise the budget");
  }
  if (in_epoch_ > kWarnings) return;
  std::string text = Error(bad.error).what();
  text += bad.replaced ? "; another sample takes its place" : "; the sample is skipped";
  if (in_epoch_ == kWarnings) text += " (further ones of this epoch are not shown)";
  warn(text);
}

}  // namespace shardmill::internal
