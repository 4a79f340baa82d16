// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/destination.h"

#include <shardmill/formats/error.h>
#include <shardmill/formats/manifest.h>

#include <algorithm>

#include "formats/internal/index_file.h"
#include "formats/internal/output_file.h"
#include "formats/internal/shard_path.h"

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

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

bool has_content(const fs::path& directory) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (!is_temporary(entry.path())) return true;
  }
  return false;
}

void remove_quietly(const fs::path& path) noexcept {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

void remove_content(const fs::path& directory) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) remove_quietly(entry.path());
}

}  // namespace

Destination::Destination(fs::path path, bool force, const SourceSet& sources) {
  if (path.empty()) refuse(path, "the destination is empty", "name a directory to write");
  // "out/" names the same directory as "out", but has no file name.
  path_ = path.has_filename() ? path : path.parent_path();
  check_sources(sources);
  std::error_code error;
  const fs::file_status status = fs::status(path_, error);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status)) {
    refuse(path_, "exists and is not a directory", "name a directory to write");
  }
  existed_ = true;
  if (!has_content(path_)) return;
  const bool dataset = fs::exists(path_ / kManifestName) || fs::exists(path_ / kPlanName);
  if (!dataset) {
    refuse(path_, "the directory is not empty and holds no shardmill dataset",
           "name a new directory");
  }
  if (!force) {
    refuse(path_,
           fs::exists(path_ / kManifestName)
               ? "the directory holds a dataset already"
               : "the directory holds what an unfinished conversion has left",
           "name a new one, or add --force to replace it");
  }
  replace_ = true;
}

void Destination::check_sources(const SourceSet& sources) const {
  std::error_code error;
  const fs::path here = fs::weakly_canonical(path_, error);
  for (const Dataset& dataset : sources.datasets()) {
    for (const DatasetPart& part : dataset.parts()) {
      for (const DatasetShard& shard : part.shards) {
        const fs::path source = fs::weakly_canonical(file_of_shard(shard.path), error);
        if (lies_in(source, here)) {
          refuse(path_, "the destination holds the source " + escape(source.string()),
                 "name a directory outside the source");
        }
        if (fs::is_directory(source) && lies_in(here, source)) {
          refuse(path_, "the destination lies in the source " + escape(source.string()),
                 "name a directory outside the source");
        }
      }
    }
  }
}

// A folder dataset is all that its directory holds; of shards, only files that are the dataset's
// are removed.
void Destination::remove_old() {
  Manifest manifest;
  try {
    manifest = load_manifest(path_ / kManifestName);
  } catch (const Error&) {
    manifest = {};  // a plan only, or a manifest that is damaged: the names below are all we know
  }
  fs::remove(path_ / kManifestName);
  const fs::path here = fs::weakly_canonical(path_);
  for (const ManifestShard& shard : manifest.shards) {
    if (shard.url == ".") return remove_content(path_);
    const fs::path file = fs::weakly_canonical(path_ / shard.url);
    if (!lies_in(file, here)) continue;
    fs::remove_all(file);
    fs::remove(sidecar_path(file));  // made by shardmill index --beside
  }
  for (const auto& entry : fs::directory_iterator(path_)) {
    if (entry.path().extension() == ".sum") fs::remove(entry.path());
  }
}

void Destination::create(std::vector<std::string> files) {
  files_ = std::move(files);
  active_ = true;
  try {
    if (replace_) remove_old();
    fs::create_directories(path_);
    for (const auto& entry : fs::directory_iterator(path_)) {
      if (is_temporary(entry.path())) fs::remove_all(entry.path());
    }
  } catch (const fs::filesystem_error& error) {
    throw system_error(error.code().value(), path_.string(), "cannot prepare the directory");
  }
  write_file(path_ / kPlanName, as_bytes("{\"shardmill_plan\": 1}\n"));
}

void Destination::keep() {
  std::error_code ignored;
  fs::remove(path_ / kPlanName, ignored);
  active_ = false;
}

Destination::~Destination() {
  if (!active_) return;
  for (const std::string& file : files_) {
    if (file == ".") {
      remove_content(path_);
      continue;
    }
    remove_quietly(path_ / file);
    remove_quietly(temporary_name(path_ / file));
  }
  remove_quietly(path_ / kPlanName);
  std::error_code ignored;
  if (!existed_) fs::remove(path_, ignored);  // only if nothing else came into it
}

}  // namespace shardmill::internal
