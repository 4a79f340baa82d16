// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/dataset.h>
#include <shardmill/formats/error.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include "formats/internal/dataset_spec.h"
#include "formats/internal/flat_dataset.h"
#include "formats/internal/index_file.h"
#include "formats/internal/view.h"

namespace shardmill {

namespace fs = std::filesystem;

namespace {

using internal::FileStamp;
using internal::FlatDataset;
using internal::IndexEntry;
using internal::IndexFile;
using internal::IndexPlace;

constexpr std::size_t kIndexThreads = 8;

// Says what is wrong between a shard and its line in the manifest.
void check_against_manifest(const ManifestShard& listed, const fs::path& path, const Format& format,
                            const FileStamp& stamp, std::uint64_t samples) {
  const bool has_file = !format.data_file(path).empty() && stamp != FileStamp();
  std::string cause;
  if (listed.filesize != 0 && has_file && stamp.size != listed.filesize) {
    cause = "has " + std::to_string(stamp.size) + " bytes, its manifest says " +
            std::to_string(listed.filesize);
  } else if (samples != listed.samples) {
    cause = "holds " + std::to_string(samples) + " samples, its manifest says " +
            std::to_string(listed.samples);
  }
  if (cause.empty()) return;
  throw Error(ErrorCode::kDataLoss, path.string(), {}, cause,
              "copy or convert this shard again, and check with shardmill verify");
}

// Gathers what Dataset::open() finds.
class Opener {
 public:
  Opener(const internal::ResolvedSpec& resolved, std::string_view spec, Access access)
      : resolved_(resolved), access_(access) {
    out_.spec = spec;
    out_.access = access;
    out_.kind_reason = escape(resolved.reason);
  }

  // Returns the dataset; its indices lie in this object.
  const FlatDataset& open() {
    open_index_file();
    add_part(*resolved_.format, resolved_.shards,
             resolved_.manifest ? &*resolved_.manifest : nullptr);
    for (std::size_t i = 0; i < resolved_.joined.size(); ++i) {
      add_part(*resolved_.joined[i].format, resolved_.joined[i].shards,
               &resolved_.manifest->joined[i]);
    }
    out_.manifest = resolved_.manifest;
    if (out_.manifest && !out_.manifest->classes.empty()) {
      out_.info.classes = out_.manifest->classes;
    }
    for (const Said& said : said_) {
      const std::string more =
          said.more == 0 ? "" : " (and " + std::to_string(said.more) + " more shards)";
      out_.info.warnings.push_back(said.shard + more + ": " + said.text);
    }
    take_warnings(resolved_.warnings);
    take_warnings(late_warnings_);
    return out_;
  }

 private:
  void take_warnings(const std::vector<std::string>& lines) {
    out_.info.warnings.insert(out_.info.warnings.end(), lines.begin(), lines.end());
  }

  void open_index_file() {
    if (!resolved_.manifest || resolved_.manifest->index.empty()) return;
    const fs::path path = resolved_.manifest_path.parent_path() / resolved_.manifest->index;
    std::size_t shards = resolved_.shards.size();
    for (const auto& part : resolved_.joined) shards += part.shards.size();
    try {
      index_file_ = std::make_shared<const IndexFile>(path);
      if (index_file_->size() == shards) return;
      late_warnings_.push_back(escape(path.string()) + " is of other shards and is not used");
    } catch (const Error& error) {
      late_warnings_.push_back(std::string("the index is not used: ") + error.what());
    }
    index_file_ = nullptr;
  }

  void add_part(const Format& format, const std::vector<fs::path>& paths,
                const Manifest* manifest) {
    out_.parts.push_back({&format, {}});
    out_.indices.emplace_back();
    std::vector<Found> shards(paths.size());
    for (std::size_t s = 0; s < paths.size(); ++s) look_at(format, paths[s], shards[s]);
    build_missing(format, paths, shards);
    std::uint64_t first = 0;
    for (std::size_t s = 0; s < paths.size(); ++s) {
      Found& shard = shards[s];
      if (shard.error) std::rethrow_exception(shard.error);
      if (manifest != nullptr) {
        check_against_manifest(manifest->shards[s], paths[s], format, shard.stamp,
                               shard.entry.samples);
      }
      add_info(shard.entry.info, paths[s]);
      out_.parts.back().shards.push_back({paths[s], first, shard.entry.samples});
      first += shard.entry.samples;
      if (shard.place.file == nullptr) {
        shard.place.bytes = built_.emplace_back(std::move(shard.built));
      }
      out_.indices.back().push_back(std::move(shard.place));
    }
  }

  // What is learned of one shard.
  struct Found {
    FileStamp stamp;
    IndexEntry entry;
    IndexPlace place;              // in an index file, or
    std::vector<std::byte> built;  // the index that was made now
    std::exception_ptr error;
  };

  void look_at(const Format& format, const fs::path& path, Found& shard) {
    const fs::path file = format.data_file(path);
    if (!file.empty()) shard.stamp = internal::stamp_of(file);
    shard.place = find_index(format, path, shard.stamp, shard.entry);
    ++shard_number_;
  }

  // Builds the indices that were not found. With several shards most of the time is waiting for the
  // disk or the network, so there are several threads.
  void build_missing(const Format& format, const std::vector<fs::path>& paths,
                     std::vector<Found>& shards) {
    std::vector<std::size_t> missing;
    for (std::size_t s = 0; s < shards.size(); ++s) {
      if (shards[s].place.file == nullptr) missing.push_back(s);
    }
    std::atomic<std::size_t> next{0};
    std::atomic<bool> failed{false};
    const auto work = [&] {
      for (std::size_t i = next++; i < missing.size() && !failed; i = next++) {
        Found& shard = shards[missing[i]];
        try {
          shard.built = format.build_index(paths[missing[i]], access_);
          const auto reader = format.open(paths[missing[i]], shard.built, access_);
          shard.entry = {reader->size(), {}, reader->info(), {}};
        } catch (...) {
          shard.error = std::current_exception();
          failed = true;  // those before it, which count first, are being worked on already
        }
      }
    };
    const std::size_t threads =
        format.traits().threads ? std::min(kIndexThreads, missing.size()) : 1;
    std::vector<std::jthread> others;
    try {
      for (std::size_t t = 1; t < threads; ++t) others.emplace_back(work);
    } catch (const std::system_error&) {
      // No more threads are to be had: it goes on with those that are there.
    }
    work();
  }

  // Returns an entry that fits the shard as it is now, of the manifest's index file or the one
  // beside the shard.
  IndexPlace find_index(const Format& format, const fs::path& path, const FileStamp& stamp,
                        IndexEntry& entry) {
    if (stamp == FileStamp()) return {};
    if (index_file_ != nullptr) {
      if (fits(format, path, stamp, *index_file_, shard_number_, entry)) {
        return {{}, index_file_, shard_number_};
      }
    }
    const fs::path beside = internal::sidecar_path(path);
    std::error_code error;
    if (!fs::is_regular_file(beside, error)) return {};
    try {
      auto sidecar = std::make_shared<const IndexFile>(beside);
      if (sidecar->size() == 1 && fits(format, path, stamp, *sidecar, 0, entry)) {
        return {{}, std::move(sidecar), 0};
      }
    } catch (const Error& failure) {
      late_warnings_.push_back(std::string("the index is not used: ") + failure.what());
    }
    return {};
  }

  bool fits(const Format& format, const fs::path& path, const FileStamp& stamp,
            const IndexFile& file, std::size_t number, IndexEntry& entry) {
    try {
      entry = file.entry(number);
      if (entry.index.empty()) return false;
      if (entry.stamp != stamp) {
        late_warnings_.push_back("the index " + escape(file.path()) + " is stale for " +
                                 escape(path.filename().string()) +
                                 " and is not used; make it again with shardmill index");
        return false;
      }
      // One is tried: whether this program understands the others too.
      if (&format != tried_) format.open(path, entry.index, access_);
      tried_ = &format;
      return true;
    } catch (const Error& failure) {
      late_warnings_.push_back(std::string("the index is not used: ") + failure.what());
      return false;
    }
  }

  void add_info(const ShardInfo& info, const fs::path& path) {
    if (!any_info_) {
      any_info_ = true;
      out_.info.classes = info.classes;
      out_.info.layout = info.layout;
    }
    for (const std::string& warning : info.warnings) {
      const auto [at, added] = said_at_.try_emplace(warning, said_.size());
      if (added) {
        said_.push_back({warning, escape(path.filename().string()), 0});
      } else {
        ++said_[at->second].more;
      }
    }
  }

  // A warning, and of how many shards it is the same.
  struct Said {
    std::string text;
    std::string shard;
    std::size_t more = 0;
  };

  const internal::ResolvedSpec& resolved_;
  Access access_;
  FlatDataset out_;
  std::shared_ptr<const IndexFile> index_file_;
  std::size_t shard_number_ = 0;  // of all parts together
  const Format* tried_ = nullptr;
  bool any_info_ = false;
  std::deque<std::vector<std::byte>> built_;
  std::vector<Said> said_;
  std::unordered_map<std::string, std::size_t> said_at_;  // by text
  std::vector<std::string> late_warnings_;
};

}  // namespace

struct Dataset::State {
  std::vector<std::uint64_t> owned;  // the flat bytes, unless they are borrowed
  std::span<const std::byte> flat;
  std::uint64_t size = 0;
  FlatDataset data;

  // Fills everything else from `flat`.
  void parse() {
    data = internal::unpack_dataset(flat);
    for (const DatasetShard& shard : data.parts[0].shards) size += shard.samples;
  }
};

Dataset Dataset::open(std::string_view spec, Access access) {
  const internal::ResolvedSpec resolved = internal::resolve_spec(spec);
  Opener opener(resolved, spec, access);
  auto state = std::make_shared<State>();
  state->owned = internal::pack_dataset(opener.open());
  state->flat = std::as_bytes(std::span<const std::uint64_t>(state->owned));
  state->parse();
  return Dataset(std::move(state));
}

Dataset Dataset::attach(std::span<const std::byte> flat) {
  auto state = std::make_shared<State>();
  state->flat = flat;
  state->parse();
  return Dataset(std::move(state));
}

std::span<const std::byte> Dataset::flat() const noexcept { return state_->flat; }
std::uint64_t Dataset::size() const noexcept { return state_->size; }
const std::string& Dataset::spec() const noexcept { return state_->data.spec; }
const Format& Dataset::format() const noexcept { return *parts()[0].format; }
Access Dataset::access() const noexcept { return state_->data.access; }
const std::vector<DatasetShard>& Dataset::shards() const noexcept { return parts()[0].shards; }
const std::vector<DatasetPart>& Dataset::parts() const noexcept { return state_->data.parts; }
const std::vector<FieldRule>& Dataset::rules() const noexcept { return state_->data.rules; }
const std::vector<std::string>& Dataset::classes() const noexcept {
  return state_->data.info.classes;
}
const std::optional<Manifest>& Dataset::manifest() const noexcept { return state_->data.manifest; }
const std::string& Dataset::kind_reason() const noexcept { return state_->data.kind_reason; }
const ShardInfo& Dataset::info() const noexcept { return state_->data.info; }

std::span<const std::byte> Dataset::shard_index(std::size_t s, std::size_t part) const {
  return state_->data.index(part, s);
}

std::size_t Dataset::shard_of(std::uint64_t n, std::size_t part) const noexcept {
  const auto& shards = parts()[part].shards;
  const auto after = std::upper_bound(
      shards.begin(), shards.end(), n,
      [](std::uint64_t value, const DatasetShard& shard) { return value < shard.first; });
  // Empty shards begin where their successor does: the last one that begins at or before n.
  return static_cast<std::size_t>(after - shards.begin()) - 1;
}

struct DatasetReader::Joined {
  Joined(const Dataset& dataset)
      : view(dataset.rules(), dataset.classes()), samples(dataset.parts().size()) {}
  internal::View view;
  std::vector<SampleView> samples;  // one a part
};

DatasetReader::DatasetReader(Dataset dataset) : dataset_(std::move(dataset)) {
  for (const DatasetPart& part : dataset_.parts()) readers_.emplace_back(part.shards.size());
  if (!dataset_.rules().empty()) joined_ = std::make_unique<Joined>(dataset_);
}

DatasetReader::~DatasetReader() = default;
DatasetReader::DatasetReader(DatasetReader&&) noexcept = default;
DatasetReader& DatasetReader::operator=(DatasetReader&&) noexcept = default;

Reader& DatasetReader::shard_reader(std::size_t s, std::size_t part) {
  auto& reader = readers_[part][s];
  if (!reader) {
    const DatasetPart& shards = dataset_.parts()[part];
    reader = shards.format->open(shards.shards[s].path, dataset_.shard_index(s, part),
                                 dataset_.access());
  }
  return *reader;
}

template <void (Reader::*Read)(std::uint64_t, SampleView&)>
void DatasetReader::read_with(std::uint64_t n, SampleView& out) {
  const std::size_t s = dataset_.shard_of(n);
  if (!joined_) return (shard_reader(s).*Read)(n - dataset_.shards()[s].first, out);
  for (std::size_t part = 0; part < readers_.size(); ++part) {
    const std::size_t t = dataset_.shard_of(n, part);
    (shard_reader(t, part).*Read)(n - dataset_.parts()[part].shards[t].first,
                                  joined_->samples[part]);
  }
  try {
    joined_->view.apply(joined_->samples, s, out);
  } catch (const Error& error) {
    ErrorInfo info = error.info();
    if (info.path.empty()) info.path = dataset_.shards()[s].path.string();
    throw Error(std::move(info));
  }
}

void DatasetReader::read(std::uint64_t n, SampleView& out) { read_with<&Reader::read>(n, out); }
void DatasetReader::peek(std::uint64_t n, SampleView& out) { read_with<&Reader::peek>(n, out); }

void DatasetReader::prefetch(std::uint64_t n) const noexcept {
  if (joined_) return;
  const std::size_t s = dataset_.shard_of(n);
  if (const auto& reader = readers_[0][s]) reader->prefetch(n - dataset_.shards()[s].first);
}

std::string DatasetReader::where(std::uint64_t n, std::string_view field) {
  if (joined_) return {};  // fields may have other names in their files
  const std::size_t s = dataset_.shard_of(n);
  return shard_reader(s).where(n - dataset_.shards()[s].first, field);
}

void DatasetReader::will_need(std::uint64_t n) noexcept {
  for (std::size_t part = 0; part < readers_.size(); ++part) {
    const std::size_t s = dataset_.shard_of(n, part);
    if (!readers_[part][s]) continue;
    readers_[part][s]->will_need(n - dataset_.parts()[part].shards[s].first);
  }
}

}  // namespace shardmill
