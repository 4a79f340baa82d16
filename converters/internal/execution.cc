// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/execution.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "converters/internal/origin.h"
#include "converters/internal/shard_writer.h"
#include "converters/internal/sum_file.h"
#include "converters/internal/task_pool.h"
#include "formats/internal/output_file.h"

namespace shardmill::internal {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

constexpr std::size_t kMostReported = 100;

bool is_whole(const Execution& what, const PlannedShard& shard, const ManifestShard& entry) {
  const Format& format = find_format(what.options.format);
  std::error_code error;
  const fs::path file = format.data_file(what.destination.shard_path(what.plan, shard));
  if (!file.empty() && (fs::file_size(file, error) != entry.filesize || error)) return false;
  try {
    const auto sums =
        load_sums(sum_path(what.destination.part_path(what.plan, shard.part), shard.url));
    return sums && sums->size() == entry.samples;
  } catch (const Error&) {
    return false;
  }
}

// Fails when the budget of errors is used up.
class ErrorBudget {
 public:
  ErrorBudget(const Execution& what, std::uint64_t skipped) : skipped_(skipped) {
    if (what.options.max_errors) most_ = what.options.max_errors->of(what.plan.order.size());
  }
  void add(const std::vector<SkippedSample>& skipped) {
    skipped_ += skipped.size();
    if (!most_ || skipped_ <= *most_) return;
    const SkippedSample& one = skipped.empty() ? SkippedSample{} : skipped.front();
    throw Error(
        ErrorCode::kDataLoss, one.path, sample_place(one.key, one.field),
        one.cause + " (one of more than " + std::to_string(*most_) + " samples with errors)",
        "repair the source, or allow more with --max-errors");
  }

 private:
  std::optional<std::uint64_t> most_;
  std::uint64_t skipped_;
};

PoolOptions pool_for(const Execution& what, const std::vector<std::size_t>& todo) {
  PoolOptions pool{todo.size(), what.options.jobs, "writing", 0, 0};
  for (const std::size_t number : todo) {
    pool.total_samples += what.plan.shards[number].samples;
    pool.total_bytes += what.plan.shards[number].source_bytes;
  }
  return pool;
}

std::vector<FinishedShard> run(const Execution& what, const std::vector<std::size_t>& todo,
                               const PoolOptions& pool, const Observer& observer) {
  const auto results = run_tasks(
      pool,
      [&]() -> Task {
        const auto writer = std::make_shared<ShardWriter>(what.sources, what.plan, what.options,
                                                          what.destination.path());
        return [&todo, writer](std::size_t task, TaskContext& context) {
          return writer->write(todo[task], context).text();
        };
      },
      observer);
  std::vector<FinishedShard> finished;
  for (const std::string& text : results) finished.push_back(FinishedShard::parse(text));
  return finished;
}

// Empties the places of the shards that will be written.
void clear(const Execution& what, const std::vector<std::size_t>& todo) {
  for (const PlannedPart& part : what.plan.parts) {
    const fs::path directory = what.destination.path() / part.name;
    std::error_code error;
    fs::create_directories(directory, error);
    if (error) throw system_error(error.value(), directory.string(), "cannot create");
  }
  for (const std::size_t number : todo) {
    what.destination.clear_shard(what.plan, what.plan.shards[number], what.keep);
  }
}

}  // namespace

std::map<std::size_t, FinishedShard> still_there(const Execution& what,
                                                 const JournalState& journals) {
  std::map<std::size_t, FinishedShard> finished;
  for (const auto& [number, shard] : journals.finished) {
    if (number >= what.plan.shards.size()) continue;
    if (is_whole(what, what.plan.shards[number], shard.entry)) finished.emplace(number, shard);
  }
  return finished;
}

std::vector<FinishedShard> write_shards(const Execution& what, const std::vector<std::size_t>& todo,
                                        const Observer& observer) {
  clear(what, todo);
  Journal journal(what.destination.path() / journal_name(what.options.rank));
  std::uint64_t skipped = what.plan.skipped.size();
  for (const auto& [number, shard] : read_journals(what.destination.path()).finished) {
    if (std::find(todo.begin(), todo.end(), number) == todo.end()) skipped += shard.skipped.size();
  }
  ErrorBudget budget(what, skipped);
  budget.add({});
  PoolOptions pool = pool_for(what, todo);
  pool.succeeded = [&](std::size_t, const std::string& text) {
    journal.append(text);
    budget.add(FinishedShard::parse(text).skipped);
  };
  return run(what, todo, pool, observer);
}

void complete(const Execution& what, const std::map<std::size_t, FinishedShard>& finished,
              ConvertReport& report) {
  std::vector<Manifest> manifests;
  std::vector<Digest> digests(what.plan.parts.size());
  for (const PlannedPart& part : what.plan.parts) manifests.push_back(part.manifest);
  std::uint64_t samples = 0;
  std::uint64_t skipped = 0;
  Digest all;
  for (std::size_t number = 0; number < what.plan.shards.size(); ++number) {
    const PlannedShard& planned = what.plan.shards[number];
    FinishedShard shard = finished.at(number);
    shard.entry.url = planned.url;
    manifests[planned.part].shards.push_back(shard.entry);
    digests[planned.part] += shard.digest;
    all += shard.digest;
    samples += shard.entry.samples;
    skipped += shard.skipped.size();
    report.bytes += shard.bytes;
  }
  if (samples + skipped != what.plan.order.size()) {
    throw Error(ErrorCode::kInternal, what.destination.path().string(), {},
                "wrote " + std::to_string(samples) + " samples, but read " +
                    std::to_string(what.plan.order.size()));
  }
  Origin origin{option_texts(what.options), {}};
  for (std::size_t part = 0; part < manifests.size(); ++part) {
    manifests[part].content_digest = digests[part].hex();
    origin.parts.push_back(what.plan.parts[part].name);
  }
  save_origin(what.destination.path(), origin);
  for (std::size_t part = 0; part < manifests.size(); ++part) {
    save_manifest(what.destination.part_path(what.plan, part) / kManifestName, manifests[part]);
  }
  report.samples = samples;
  report.content_digest = all.hex();
  what.destination.finish();
}

std::size_t rebuild_missing(const Execution& what, const Observer& observer) {
  std::vector<std::vector<ManifestShard>> listed;
  for (std::size_t part = 0; part < what.plan.parts.size(); ++part) {
    listed.push_back(
        load_manifest(what.destination.part_path(what.plan, part) / kManifestName).shards);
  }
  std::vector<std::size_t> todo;
  std::vector<ManifestShard> expected;
  std::vector<std::size_t> next(listed.size(), 0);
  const auto changed = [&](const std::string& cause) {
    throw Error(ErrorCode::kDataLoss, what.destination.path().string(), {},
                "the sources do not give this dataset any more: " + cause,
                "convert into a new directory, or add --force");
  };
  for (std::size_t number = 0; number < what.plan.shards.size(); ++number) {
    const PlannedShard& shard = what.plan.shards[number];
    const std::size_t at = next[shard.part]++;
    if (at >= listed[shard.part].size() || listed[shard.part][at].url != shard.url) {
      changed("they would make other shards");
    }
    if (is_whole(what, shard, listed[shard.part][at])) continue;
    todo.push_back(number);
    expected.push_back(listed[shard.part][at]);
  }
  clear(what, todo);
  const auto finished = run(what, todo, pool_for(what, todo), observer);
  for (std::size_t i = 0; i < finished.size(); ++i) {
    if (finished[i].entry.xxh3 == expected[i].xxh3) continue;
    what.destination.clear_shard(what.plan, what.plan.shards[todo[i]], what.keep);
    changed(expected[i].url + " would be another");
  }
  return todo.size();
}

void report_skipped(const ConvertPlan& plan, const std::map<std::size_t, FinishedShard>& finished,
                    const ConvertOptions& options, ConvertReport& report) {
  std::string lines;
  const auto add = [&](const SkippedSample& sample) {
    ++report.skipped_count;
    if (report.skipped.size() < kMostReported) report.skipped.push_back(sample);
    if (options.error_log.empty()) return;
    const Json json = {{"path", sample.path},
                       {"key", sample.key},
                       {"field", sample.field},
                       {"cause", sample.cause}};
    lines += json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  };
  for (const SkippedSample& sample : plan.skipped) add(sample);
  for (const auto& [number, shard] : finished) {
    for (const SkippedSample& sample : shard.skipped) add(sample);
  }
  if (!options.error_log.empty()) write_file(options.error_log, as_bytes(lines));
}

}  // namespace shardmill::internal
