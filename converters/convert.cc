// SPDX-License-Identifier: Apache-2.0
#include <shardmill/converters/convert.h>
#include <shardmill/converters/streams.h>
#include <shardmill/formats/error.h>
#include <shardmill/loader/system/cpus.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "converters/internal/destination.h"
#include "converters/internal/execution.h"
#include "converters/internal/forecast.h"
#include "converters/internal/option_check.h"
#include "converters/internal/option_text.h"
#include "converters/internal/origin.h"
#include "converters/internal/plan_file.h"
#include "converters/internal/spool.h"

namespace shardmill {

namespace fs = std::filesystem;

namespace {

using internal::Destination;
using internal::Execution;
using internal::FinishedShard;
using internal::StoredPlan;

constexpr useconds_t kPollMicroseconds = 50'000;

std::uint64_t samples_of(const std::vector<FinishedShard>& shards) {
  std::uint64_t samples = 0;
  for (const FinishedShard& shard : shards) samples += shard.entry.samples;
  return samples;
}

// One call of convert().
class Conversion {
 public:
  Conversion(const ConvertOptions& options, const Observer& observer)
      : options_(options), outer_(observer), destination_(options.destination) {
    observer_.stop = observer.stop;
    observer_.warning = [this](const std::string& text) {
      report_.warnings.push_back(text);
      if (outer_.warning) outer_.warning(text);
    };
    observer_.progress = [this](const Progress& progress) {
      beat();
      if (outer_.progress) outer_.progress(progress);
    };
  }

  ConvertReport run() {
    const auto begin = std::chrono::steady_clock::now();
    drop_shuffle(options_.format);
    if (options_.resume) adopt_options();
    internal::check_options(options_);
    if (options_.jobs == 0) options_.jobs = options_.world_size > 1 ? cpu_share() : usable_cpus();
    if (options_.world_size > 1) {
      run_rank();
    } else {
      run_alone();
    }
    report_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return std::move(report_);
  }

 private:
  void beat() noexcept {
    if (destination_.locked()) destination_.held().beat();
    if (rank_lock_) rank_lock_->beat();
  }

  void drop_shuffle(const std::string& format) {
    if (!options_.shuffle || format != "folder") return;
    observer_.warning("folders are read in the order of their names: --shuffle does nothing here");
    options_.shuffle.reset();
    std::erase(options_.given, "--shuffle");
  }

  // Options of an earlier run in this place are those of this one.
  void adopt_options() {
    if (destination_.state() == Destination::State::kUnfinished) {
      stored_ = internal::load_plan(destination_.path());
      drop_shuffle(stored_->options["--to"]);
      internal::adopt_options(stored_->options,
                              (destination_.path() / internal::kPlanName).string(), options_);
    } else if (auto origin = internal::load_origin(destination_.path())) {
      drop_shuffle(origin->options["--to"]);
      internal::adopt_options(origin->options,
                              (destination_.path() / internal::kOriginName).string(), options_);
    }
  }

  void run_alone() {
    const bool go_on = options_.resume && destination_.state() != Destination::State::kNew;
    if (options_.dry_run) {
      make_plan();
      return;
    }
    if (go_on) {
      lock();
      if (destination_.state() == Destination::State::kComplete) return rebuild();
      if (destination_.state() == Destination::State::kForeign) destination_.check_writable(false);
      stored_ = internal::load_plan(destination_.path());
      restore_streams();
    } else {
      make_plan();
      lock();
      destination_.check_writable(options_.force);
      keep_plan();
    }
    describe(stored_->plan);
    if (options_.plan_only) {
      report_.samples = stored_->plan.order.size();
      report_.bytes = stored_->plan.forecast_bytes;
      return destination_.unlock();
    }
    write();
  }

  void lock() {
    destination_.lock(observer_);
    destination_.look();
  }

  // Opens the sources, scans them and checks that the result fits.
  void make_plan() {
    if (std::any_of(options_.sources.begin(), options_.sources.end(), is_stream)) {
      from_stdin_ = std::count(options_.sources.begin(), options_.sources.end(), "-") > 0;
      destination_.check_writable(options_.force || options_.resume);  // before it is unpacked
    }
    std::vector<std::string> specs = options_.sources;
    spool_.emplace(specs, options_.destination, observer_, options_.on_error == OnError::kSkip);
    StoredPlan made;
    made.sources = internal::SourceSet(specs, options_, observer_);
    check_apart(destination_.path(), made.sources);
    if (!options_.resume) destination_.check_writable(options_.force);
    for (const std::string& warning : made.sources.warnings()) observer_.warning(warning);
    made.options = internal::option_texts(options_);
    made.plan = internal::make_plan(made.sources, options_, observer_);
    stored_ = std::move(made);
    report_.samples = stored_->plan.order.size();
    report_.bytes = stored_->plan.forecast_bytes;
    report_.bytes_plus_minus = stored_->plan.forecast_plus_minus;
    describe(stored_->plan);
    if (options_.dry_run) return report_skipped(stored_->plan, {}, options_, report_);
    internal::SpaceGuard(destination_.path(), options_.reserve)
        .check_forecast(stored_->plan.forecast_bytes);
  }

  // Unpacked sources of an interrupted run are unpacked again, into the same place.
  void restore_streams() {
    std::error_code error;
    bool all = true;
    for (const auto& source : stored_->sources.sources()) {
      for (const fs::path& path : source->paths()) all = all && fs::exists(path, error);
    }
    std::vector<std::string> specs = options_.sources;
    if (!all) spool_.emplace(specs, options_.destination, observer_, true);
    check_apart(destination_.path(), stored_->sources);
  }

  void keep_plan() {
    destination_.clear();
    stored_->keep = destination_.foreign_names();
    save_plan(destination_.path(), stored_->options, stored_->plan, stored_->sources,
              stored_->keep);
  }

  void describe(const internal::ConvertPlan& plan) {
    report_.shards = plan.shards.size();
    report_.source_bytes = plan.source_bytes;
    report_.shard_patterns.clear();
    for (std::size_t part = 0; part < plan.parts.size(); ++part) {
      report_.shard_patterns.push_back(internal::shard_pattern(plan, part, options_));
    }
  }

  Execution execution() {
    return {stored_->sources, stored_->plan, options_, destination_, stored_->keep};
  }

  // Writes what is missing of the plan, and the manifest.
  void write() {
    const auto finished = write_missing([](std::size_t) { return true; });
    report_.bytes = 0;
    complete(execution(), finished, report_);
    report_.complete = true;
    destination_.unlock();
  }

  // Writes the missing shards that are `mine`. Returns all that are finished.
  template <class Mine>
  std::map<std::size_t, FinishedShard> write_missing(Mine mine) {
    const Execution what = execution();
    std::map<std::size_t, FinishedShard> finished =
        still_there(what, internal::read_journals(destination_.path()));
    std::vector<std::size_t> todo;
    for (std::size_t number = 0; number < what.plan.shards.size(); ++number) {
      if (!mine(number)) continue;
      if (finished.contains(number)) {
        ++report_.resumed_shards;
      } else {
        todo.push_back(number);
      }
    }
    try {
      for (FinishedShard& shard : write_shards(what, todo, observer_)) {
        const std::size_t number = shard.number;
        finished[number] = std::move(shard);
      }
    } catch (const Interrupted&) {
      give_up(finished);
      throw Interrupted(from_stdin_ ? "" : resume_remedy());
    } catch (const Error& error) {
      give_up(finished);
      throw resumable(error.info());
    }
    report_skipped(what.plan, finished, options_, report_);
    return finished;
  }

  // Nothing of standard input can be read again: nothing of its result is kept.
  void give_up(const std::map<std::size_t, FinishedShard>& before) {
    if (from_stdin_) return destination_.discard(stored_->plan, stored_->keep);
    ConvertReport unused;
    try {
      auto finished = before;
      for (auto& [number, shard] : internal::read_journals(destination_.path()).finished) {
        finished.emplace(number, shard);
      }
      report_skipped(stored_->plan, finished, options_, unused);
    } catch (const std::exception&) {
      // The error that ended the run counts.
    }
  }

  std::string resume_remedy() const {
    return "finished shards are kept: run again with --resume to go on";
  }

  Error resumable(ErrorInfo info) const {
    if (from_stdin_ || info.remedy.find("--resume") != std::string::npos) return Error(info);
    if (info.code == ErrorCode::kResourceExhausted) {
      info.remedy = "free space or memory, then run again with --resume";
    } else {
      if (info.remedy.empty()) info.remedy = "repair the source";
      info.remedy += ", then run again with --resume";
    }
    return Error(info);
  }

  // A complete dataset: what was lost of it is made again.
  void rebuild() {
    const auto origin = internal::load_origin(destination_.path());
    if (!origin) {
      throw Error(ErrorCode::kInvalidArgument, destination_.path().string(), {},
                  "the directory holds a dataset, and no plan to go on with",
                  "name a new one, or replace it with --force");
    }
    destination_.finish();  // what a run has left that was killed at its very end
    make_plan();
    report_.resumed_shards = report_.shards - rebuild_missing(execution(), observer_);
    report_.bytes = 0;
    Digest digest;
    for (std::size_t part = 0; part < stored_->plan.parts.size(); ++part) {
      const Manifest manifest =
          load_manifest(destination_.part_path(stored_->plan, part) / kManifestName);
      for (const ManifestShard& shard : manifest.shards) report_.bytes += shard.filesize;
      digest += Digest::from_hex(manifest.content_digest);
    }
    report_.content_digest = digest.hex();
    report_.complete = true;
    destination_.unlock();
  }

  // Waits for the lock of the whole destination, which ranks have only for moments.
  void wait_for_lock() {
    while (!destination_.try_lock(observer_)) {
      observer_.progress({"waiting for other ranks", 0, 0, 0, 0});
      if (observer_.stop.stop_requested()) throw Interrupted(resume_remedy());
      usleep(kPollMicroseconds);
    }
    destination_.look();
  }

  void run_rank() {
    const std::string rank = std::to_string(options_.rank);
    if (options_.dry_run) return make_plan();
    if (destination_.state() == Destination::State::kComplete) return already_complete();
    rank_lock_ = destination_.lock_rank(options_.rank, observer_);
    wait_for_lock();
    if (destination_.state() == Destination::State::kComplete) return already_complete();
    if (destination_.state() == Destination::State::kUnfinished) {
      stored_ = internal::load_plan(destination_.path());
      internal::adopt_options(stored_->options,
                              (destination_.path() / internal::kPlanName).string(), options_);
      check_apart(destination_.path(), stored_->sources);
    } else {
      destination_.check_writable(false);
      make_plan();
      keep_plan();
    }
    describe(stored_->plan);
    destination_.unlock();
    if (options_.plan_only) return;
    const auto mine = [&](std::size_t number) {
      return static_cast<int>(number % static_cast<std::size_t>(options_.world_size)) ==
             options_.rank;
    };
    const auto finished = write_missing(mine);
    internal::Journal(destination_.path() / internal::journal_name(options_.rank))
        .append(internal::arrival_line(options_.rank, options_.world_size));
    report_own(finished, mine);
    finish_together();
  }

  template <class Mine>
  void report_own(const std::map<std::size_t, FinishedShard>& finished, Mine mine) {
    std::vector<FinishedShard> own;
    report_.bytes = report_.shards = report_.source_bytes = report_.skipped_count = 0;
    report_.skipped.clear();
    Digest digest;
    for (const auto& [number, shard] : finished) {
      if (!mine(number)) continue;
      own.push_back(shard);
      report_.bytes += shard.bytes;
      report_.source_bytes += stored_->plan.shards[number].source_bytes;
      report_.skipped_count += shard.skipped.size();
      report_.skipped.insert(report_.skipped.end(), shard.skipped.begin(), shard.skipped.end());
      digest += shard.digest;
      ++report_.shards;
    }
    report_.samples = samples_of(own);
    report_.content_digest = digest.hex();
  }

  // The last rank to come here finds all others through, and completes the manifest.
  void finish_together() {
    wait_for_lock();
    if (destination_.state() == Destination::State::kUnfinished) {
      const internal::JournalState journals = internal::read_journals(destination_.path());
      const auto finished = still_there(execution(), journals);
      bool all = finished.size() == stored_->plan.shards.size();
      for (int rank = 0; rank < options_.world_size; ++rank) {
        all = all && journals.arrived.contains({rank, options_.world_size});
      }
      if (all) {
        ConvertReport total;
        report_skipped(stored_->plan, finished, options_, total);
        complete(execution(), finished, total);
        report_.total = ConvertTotals{total.samples,       stored_->plan.shards.size(),
                                      total.bytes,         stored_->plan.source_bytes,
                                      total.skipped_count, total.content_digest};
        report_.complete = true;
      }
    }
    rank_lock_.reset();
    destination_.unlock();
  }

  void already_complete() {
    if (!options_.resume) destination_.check_writable(false);
    report_.complete = true;
    rank_lock_.reset();
    destination_.unlock();
  }

  ConvertOptions options_;
  const Observer& outer_;
  Observer observer_;
  ConvertReport report_;
  Destination destination_;
  std::optional<internal::Spool> spool_;
  std::optional<StoredPlan> stored_;
  std::optional<internal::DestinationLock> rank_lock_;
  bool from_stdin_ = false;
};

}  // namespace

ConvertReport convert(const ConvertOptions& options, const Observer& observer) {
  return Conversion(options, observer).run();
}

}  // namespace shardmill
