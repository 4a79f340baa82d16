// SPDX-License-Identifier: Apache-2.0
#include <shardmill/converters/streams.h>
#include <shardmill/converters/verify.h>
#include <shardmill/formats/dataset.h>
#include <shardmill/formats/error.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "converters/internal/compare.h"
#include "converters/internal/rebuild.h"
#include "converters/internal/shard_check.h"
#include "converters/internal/spool.h"
#include "converters/internal/task_pool.h"
#include "converters/internal/wire.h"

namespace shardmill {

namespace fs = std::filesystem;

namespace {

using internal::ShardToCheck;

struct Checked {
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;
  Digest digest;
  std::vector<Damage> damaged;

  std::string pack() const {
    internal::WireWriter out;
    out.number(samples).number(bytes).number(digest.high).number(digest.low);
    out.number(damaged.size());
    for (const Damage& d : damaged) out.text(d.shard).text(d.key).text(d.field).text(d.cause);
    return out.take();
  }
  void unpack(std::string_view packed) {
    internal::WireReader in(packed);
    samples += in.number();
    bytes += in.number();
    const std::uint64_t high = in.number();
    digest += Digest{high, in.number()};
    for (std::uint64_t n = in.number(); n > 0; --n) {
      Damage& d = damaged.emplace_back();
      d.shard = in.text();
      d.key = in.text();
      d.field = in.text();
      d.cause = in.text();
    }
  }
};

// Opens a dataset whose samples are made by rules, if its shards allow it: else ShardCheck says
// what is wrong with them.
std::optional<Dataset> open_view(const std::string& spec, const internal::CheckPlan& plan) {
  if (!plan.view) return std::nullopt;
  try {
    return Dataset::open(spec, Access::kRead);
  } catch (const Error& error) {
    const ErrorCode code = error.code();
    if (code != ErrorCode::kDataLoss && code != ErrorCode::kNotFound) throw;
    return std::nullopt;
  }
}

// Reads a dataset once from front to back. Behind the first damage nothing can be told apart.
Checked check_stream(const std::string& spec, const VerifyOptions& options,
                     const Observer& observer) {
  Checked all;
  SampleHasher hasher;
  internal::ImageCheck images(options.decode);
  std::string at = spec;
  try {
    visit_stream(spec, observer,
                 [&](std::uint64_t, const SampleView& sample, const std::string& shard) {
                   at = shard;
                   all.digest += hasher.hash(sample);
                   ++all.samples;
                   for (const FieldView& field : sample.fields) all.bytes += field.bytes.size();
                   images.check(sample, shard, all.damaged);
                   return true;
                 });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDataLoss && error.code() != ErrorCode::kUnsupported) throw;
    const ErrorInfo& info = error.info();
    all.damaged.push_back({info.path.empty() ? at : info.path,
                           {},
                           {},
                           info.place.empty() ? info.cause : info.place + ": " + info.cause});
  }
  return all;
}

Checked check_all(const std::string& spec, const VerifyOptions& options, std::string_view phase,
                  const Observer& observer) {
  if (is_stream(spec)) return check_stream(spec, options, observer);
  const internal::CheckPlan plan = internal::plan_check(spec, options.shards);
  const std::optional<Dataset> made = open_view(spec, plan);
  const std::size_t shards = plan.shards.size();
  const std::size_t tasks = shards + (made ? made->shards().size() : 0);
  const internal::PoolOptions pool{tasks, options.jobs, phase, plan.samples, plan.bytes};
  const auto results = internal::run_tasks(
      pool,
      [&]() -> internal::Task {
        std::shared_ptr<DatasetReader> reader;
        if (made) reader = std::make_shared<DatasetReader>(*made);
        return [&, reader](std::size_t task, internal::TaskContext& context) {
          if (task >= shards) {
            internal::ViewCheck check;
            check.run(*reader, made->shards()[task - shards], context);
            return Checked{check.samples, check.bytes, check.digest, check.damaged}.pack();
          }
          internal::ShardCheck check(plan.shards[task], options.decode);
          check.run(context);
          // What a view makes of the shards is counted instead.
          if (made) return Checked{0, 0, {}, check.damaged()}.pack();
          return Checked{check.samples(), check.bytes(), check.digest(), check.damaged()}.pack();
        };
      },
      observer);
  Checked all;
  for (std::size_t i = 0; i < results.size(); ++i) {
    // Once the shards themselves are damaged, the samples made of them tell nothing new.
    const std::size_t before = all.damaged.size();
    all.unpack(results[i]);
    if (i >= shards && before > 0) all.damaged.resize(before);
  }
  const bool raw_folder = plan.format->suffix().empty() && plan.content_digest.empty();
  if (raw_folder && all.samples == 0 && all.damaged.empty()) {
    throw Error(ErrorCode::kNotFound, spec, {}, "holds no samples",
                "give a folder of class directories with files, or shards");
  }
  const bool complete = all.damaged.empty() && !plan.content_digest.empty();
  if (complete && all.digest.hex() != plan.content_digest) {
    all.damaged.push_back(
        {plan.name,
         {},
         {},
         "content digest is " + all.digest.hex() + ", the manifest says " + plan.content_digest});
  }
  return all;
}

// A dataset whose samples can be read by number: packed tars are unpacked among the temporary
// files.
class PlainDataset {
 public:
  PlainDataset(const std::string& spec, const std::string& name, const Observer& observer)
      : spec_(spec) {
    if (!is_stream(spec)) return;
    std::vector<std::string> specs = {spec};
    const fs::path place =
        fs::temp_directory_path() / ("shardmill-verify-" + std::to_string(getpid()) + "-" + name);
    spool_.emplace(specs, place, observer);
    // Each lies in a folder of its own, beside the others.
    spec_ = specs.size() == 1
                ? specs.front()
                : (fs::path(specs.front()).parent_path().parent_path() / "*" / "*.tar").string();
  }
  const std::string& spec() const noexcept { return spec_; }

 private:
  std::string spec_;
  std::optional<internal::Spool> spool_;
};

}  // namespace

VerifyReport verify(const std::string& spec, const VerifyOptions& options,
                    const Observer& observer) {
  Checked checked = check_all(spec, options, "verifying", observer);
  VerifyReport report;
  report.samples = checked.samples;
  report.bytes = checked.bytes;
  report.damaged = std::move(checked.damaged);
  report.content_digest = checked.digest.hex();
  report.rebuild = internal::rebuild_commands(spec, report.damaged);
  return report;
}

VerifyReport verify_equal(const std::string& spec, const std::string& other,
                          const VerifyOptions& options, const Observer& observer) {
  VerifyReport report = verify(spec, options, observer);
  const Checked second = check_all(other, options, "verifying the other", observer);
  report.other_damaged = second.damaged;
  report.equal = report.damaged.empty() && second.damaged.empty() &&
                 report.samples == second.samples && report.content_digest == second.digest.hex();
  // Damaged datasets are told apart by their damage, not sample by sample.
  if (!*report.equal && report.damaged.empty() && second.damaged.empty() && spec != "-" &&
      other != "-") {
    const PlainDataset first_plain(spec, "first", observer);
    const PlainDataset second_plain(other, "second", observer);
    report.differences =
        internal::first_differences(first_plain.spec(), second_plain.spec(), observer);
  }
  return report;
}

}  // namespace shardmill
