// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/destination.h"

#include <shardmill/formats/error.h>
#include <shardmill/formats/manifest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "converters/internal/origin.h"
#include "converters/internal/plan_file.h"
#include "converters/internal/sum_file.h"
#include "formats/internal/index_file.h"
#include "formats/internal/output_file.h"
#include "formats/internal/shard_path.h"

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

constexpr int kLockAttempts = 20;
constexpr auto kLockPause = std::chrono::milliseconds(50);

[[noreturn]] void refuse(const fs::path& path, std::string cause, std::string remedy) {
  throw Error(ErrorCode::kInvalidArgument, path.string(), {}, std::move(cause), std::move(remedy));
}

// True if `inner` is `outer` or lies below it. Both are canonical.
bool lies_in(const fs::path& inner, const fs::path& outer) {
  const auto [end, ignored] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return end == outer.end();
}

bool is_temporary(const fs::path& path) {
  return path.filename().native().ends_with(kTemporarySuffix);
}

void remove_quietly(const fs::path& path) noexcept {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace

void check_apart(const fs::path& path, const SourceSet& sources) {
  std::error_code error;
  const fs::path here = fs::weakly_canonical(path, error);
  for (const SourcePtr& one : sources.sources()) {
    for (const fs::path& read : one->paths()) {
      const fs::path source = fs::weakly_canonical(read, error);
      if (lies_in(source, here)) {
        refuse(path, "the destination holds the source " + escape(source.string()),
               "name a directory outside the source");
      }
      if (fs::is_directory(source) && lies_in(here, source)) {
        refuse(path, "the destination lies in the source " + escape(source.string()),
               "name a directory outside the source");
      }
    }
  }
}

namespace {

// "out/" names the same directory as "out", but has no file name.
fs::path named(const fs::path& path) {
  if (path.empty()) refuse(path, "the destination is empty", "name a directory to write");
  return path.has_filename() ? path : path.parent_path();
}

Destination::State state_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return Destination::State::kNew;
  if (!fs::is_directory(status)) return Destination::State::kForeign;
  if (fs::exists(path / kPlanName)) return Destination::State::kUnfinished;
  // A split destination has manifests in its directories alone.
  if (fs::exists(path / kManifestName) || load_origin(path)) return Destination::State::kComplete;
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    if (!is_temporary(entry.path()) && !is_working_file(name)) return Destination::State::kForeign;
  }
  return Destination::State::kNew;
}

// Removes the shards of a manifest, and what belongs to them; only what lies in its directory.
void remove_shards(const fs::path& directory, const std::vector<std::string>& urls) {
  const fs::path here = fs::weakly_canonical(directory);
  for (const std::string& url : urls) {
    if (url == ".") {
      for (const auto& entry : fs::directory_iterator(directory)) {
        if (!is_working_file(entry.path().filename().native())) fs::remove_all(entry.path());
      }
      return;
    }
    const fs::path file = fs::weakly_canonical(directory / url);
    if (!lies_in(file, here) || file == here) continue;
    fs::remove_all(file);
    fs::remove(sidecar_path(file));  // made by shardmill index --beside
  }
}

std::vector<std::string> urls_of(const Manifest& manifest) {
  std::vector<std::string> urls;
  for (const ManifestShard& shard : manifest.shards) urls.push_back(shard.url);
  return urls;
}

void remove_dataset(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) return;
  try {
    remove_shards(directory, urls_of(load_manifest(directory / kManifestName)));
  } catch (const Error&) {
    // Damaged or not there: the names that are always the same are all we know.
  }
  fs::remove(directory / kManifestName);
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".sum" || is_temporary(entry.path())) {
      fs::remove_all(entry.path());
    }
  }
}

[[noreturn]] void busy(const fs::path& path, const std::string& holder) {
  throw Error(ErrorCode::kResourceExhausted, path.string(), {},
              holder + " is converting into this directory",
              "wait for it, or name another directory");
}

void tell(const DestinationLock& lock, const Observer& observer) {
  if (lock.taken_from().empty() || !observer.warning) return;
  observer.warning("took over the lock of " + lock.taken_from() + ", which is gone");
}

}  // namespace

Destination::Destination(const fs::path& path) : path_(named(path)), state_(state_of(path_)) {}

void Destination::check_writable(bool force) const {
  std::error_code error;
  if (state_ == State::kNew) return;
  if (fs::exists(path_, error) && !fs::is_directory(path_, error)) {
    refuse(path_, "exists and is not a directory", "name a directory to write");
  }
  if (state_ == State::kForeign) {
    refuse(path_, "the directory is not empty and holds no shardmill dataset",
           "name a new directory");
  }
  if (force) return;
  if (state_ == State::kComplete) {
    refuse(path_, "the directory holds a dataset already",
           "name a new one, or add --force to replace it");
  }
  refuse(path_, "the directory holds what an unfinished conversion has left",
         "add --resume to go on with it, or --force to replace it");
}

void Destination::look() { state_ = state_of(path_); }

bool Destination::try_lock(const Observer& observer, std::string* holder) {
  make_directory();
  lock_ = DestinationLock::try_take(path_ / kLockName, holder);
  if (lock_) tell(*lock_, observer);
  return lock_.has_value();
}

void Destination::lock(const Observer& observer) {
  std::string holder;
  // The jobs of a process that was killed have its lock for a moment longer.
  for (int attempt = 0; !try_lock(observer, &holder); ++attempt) {
    if (attempt == kLockAttempts) busy(path_, holder);
    std::this_thread::sleep_for(kLockPause);
  }
  for (const auto& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kRankLockPrefix) || name.find("-", kRankLockPrefix.size()) != name.npos) {
      continue;
    }
    const auto rank = DestinationLock::try_take(entry.path(), &holder);
    if (!rank) busy(path_, holder);
    tell(*rank, observer);
  }
}

DestinationLock Destination::lock_rank(int rank, const Observer& observer) {
  make_directory();
  std::string holder;
  auto lock = DestinationLock::try_take(
      path_ / (std::string(kRankLockPrefix) + std::to_string(rank)), &holder);
  if (!lock) busy(path_, holder + ", the same rank,");
  tell(*lock, observer);
  return std::move(*lock);
}

void Destination::make_directory() {
  std::error_code error;
  if (fs::is_directory(path_, error)) return;
  if (!fs::create_directories(path_, error) && error) {
    throw system_error(error.value(), path_.string(), "cannot create");
  }
  made_ = true;
}

void Destination::clear() {
  try {
    // The plan's name comes first and goes last: until then --force and --resume know the place.
    if (state_ == State::kComplete && !fs::exists(path_ / kPlanName)) {
      write_file(path_ / kPlanName, as_bytes("{}\n"));
    }
    if (const auto origin = load_origin(path_)) {
      for (const std::string& part : origin->parts) {
        if (!part.empty() && part.find('/') == std::string::npos && part != "..") {
          remove_dataset(path_ / part);
        }
      }
      fs::remove(path_ / kOriginName);
    }
    for (const PlannedName& shard : planned_names(path_)) {
      remove_shards(path_ / shard.part, {shard.url});
      if (!shard.part.empty()) remove_dataset(path_ / shard.part);
    }
    remove_dataset(path_);
    for (const auto& entry : fs::directory_iterator(path_)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(kJournalPrefix) || name == kPlanDataName) fs::remove(entry.path());
    }
  } catch (const fs::filesystem_error& error) {
    throw system_error(error.code().value(), path_.string(), "cannot prepare the directory");
  }
}

std::vector<std::string> Destination::foreign_names() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename().string();
    if (!is_working_file(name)) names.push_back(name);
  }
  return names;
}

fs::path Destination::part_path(const ConvertPlan& plan, std::size_t part) const {
  const std::string& name = plan.parts[part].name;
  return name.empty() ? path_ : path_ / name;
}

fs::path Destination::shard_path(const ConvertPlan& plan, const PlannedShard& shard) const {
  const fs::path directory = part_path(plan, shard.part);
  return shard.url == "." ? directory : directory / shard.url;
}

void Destination::clear_shard(const ConvertPlan& plan, const PlannedShard& shard,
                              const std::vector<std::string>& keep) const {
  const fs::path directory = part_path(plan, shard.part);
  std::error_code error;
  if (!fs::exists(directory, error)) return;
  if (shard.url != ".") {
    const fs::path file = directory / shard.url;
    for (const fs::path& path : {file, temporary_name(file), sum_path(directory, shard.url),
                                 temporary_name(sum_path(directory, shard.url))}) {
      fs::remove_all(path, error);
    }
    return;
  }
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    const bool mine = plan.parts[shard.part].name.empty();
    if (is_working_file(name) ||
        (mine && std::find(keep.begin(), keep.end(), name) != keep.end())) {
      continue;
    }
    fs::remove_all(entry.path(), error);
  }
}

void Destination::finish() noexcept {
  std::error_code ignored;
  std::vector<fs::path> files = {path_ / kPlanName, path_ / kPlanDataName};
  for (fs::directory_iterator at(path_, ignored), end; !ignored && at != end;
       at.increment(ignored)) {
    if (at->path().filename().native().starts_with(kJournalPrefix)) files.push_back(at->path());
  }
  for (const fs::path& file : files) fs::remove(file, ignored);
}

void Destination::discard(const ConvertPlan& plan, const std::vector<std::string>& keep) noexcept {
  try {
    for (const PlannedShard& shard : plan.shards) clear_shard(plan, shard, keep);
    for (std::size_t part = 0; part < plan.parts.size(); ++part) {
      const fs::path directory = part_path(plan, part);
      remove_quietly(directory / kManifestName);
      std::error_code ignored;
      if (directory != path_) fs::remove(directory, ignored);  // only if it is empty
    }
  } catch (const std::exception&) {
    // What cannot be removed stays.
  }
  finish();
  unlock();
}

void Destination::unlock() noexcept {
  lock_.reset();
  std::error_code ignored;
  if (made_) fs::remove(path_, ignored);  // only if it is empty
}

}  // namespace shardmill::internal
