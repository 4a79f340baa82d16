// SPDX-License-Identifier: Apache-2.0
#include <shardmill/converters/index.h>
#include <shardmill/formats/error.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "converters/internal/adoption.h"
#include "converters/internal/field_draft.h"
#include "formats/internal/index_file.h"
#include "formats/internal/output_file.h"
#include "formats/tar/internal/other_indices.h"

namespace shardmill {

namespace fs = std::filesystem;

namespace {

using internal::AdoptedPart;
using internal::AdoptedShard;
using internal::Adoption;
using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& option, const std::string& cause,
                         const std::string& remedy) {
  throw Error(ErrorCode::kInvalidArgument, option, {}, cause, remedy);
}

void check_options(const IndexOptions& options) {
  if (options.output.empty() && !options.beside) {
    refuse("--output", "is missing", "name the file to write, for example data.json");
  }
  if (options.output.empty() && options.wids) {
    refuse("--also", "wids has no place to be written", "name one with --output");
  }
  if (!options.output.empty() && options.output.extension() != ".json") {
    refuse("--output", "\"" + escape(options.output.string()) + "\" does not end in .json",
           "manifests are known by this name");
  }
}

// JSON carries text only.
std::string as_url(const std::string& path) {
  try {
    (void)Json(path).dump();
    return path;
  } catch (const Json::exception&) {
    throw Error(ErrorCode::kUnsupported, path, {}, "the name is not UTF-8: no manifest can hold it",
                "rename the file, or index it through a link");
  }
}

// Links to directories would lead "../" elsewhere; the file's own name stays as it is.
std::string relative_url(const fs::path& shard, const fs::path& directory) {
  const fs::path given = shard.has_filename() ? shard : shard.parent_path();
  const fs::path real = fs::weakly_canonical(given.parent_path()) / given.filename();
  return as_url(real.lexically_relative(directory).string());
}

class Indexer {
 public:
  Indexer(const IndexOptions& options, const Observer& observer)
      : options_(options), observer_(observer) {
    if (options.output.empty()) return;
    const fs::path parent = fs::absolute(options.output).parent_path();
    if (!fs::is_directory(parent)) {
      throw Error(ErrorCode::kNotFound, parent.string(), {}, "no such directory",
                  "make it, then index again");
    }
    directory_ = fs::canonical(parent);
  }

  IndexReport run() {
    const Adoption adoption = internal::adopt(options_);
    for (const auto& group : adoption.groups) {
      for (const Dataset& dataset : group.datasets) {
        for (const std::string& warning : dataset.info().warnings) warn(warning);
      }
    }
    const internal::FieldDrafts drafts = internal::draft_fields(adoption, options_, observer_);
    make_manifest(adoption, drafts);
    make_entries(adoption);
    check_beside();
    std::vector<std::pair<fs::path, std::string>> texts;
    if (options_.wids) texts.emplace_back(beside_output(".wids.json"), wids_text(adoption));
    if (options_.dali) add_dali(adoption, texts);
    write(adoption, texts);
    return std::move(report_);
  }

 private:
  void warn(const std::string& text) {
    report_.warnings.push_back(text);
    if (observer_.warning) observer_.warning(text);
  }

  fs::path beside_output(const std::string& suffix) const {
    return directory_ / (options_.output.stem().string() + suffix);
  }

  std::vector<ManifestShard> list_shards(const AdoptedPart& part) const {
    std::vector<ManifestShard> list;
    for (const AdoptedShard& shard : part.shards) {
      const fs::path file = part.format->data_file(shard.path);
      list.push_back(
          {options_.output.empty() ? std::string() : relative_url(shard.path, directory_),
           shard.samples, file.empty() ? 0 : fs::file_size(file), shard.xxh3});
    }
    return list;
  }

  void make_manifest(const Adoption& adoption, const internal::FieldDrafts& drafts) {
    Manifest& manifest = report_.manifest;
    manifest.format = adoption.parts[0].format->name();
    manifest.shards = list_shards(adoption.parts[0]);
    manifest.classes = drafts.classes;
    manifest.order = drafts.class_sorted ? "class-sorted" : "mixed";
    for (const internal::FieldDraft& draft : drafts.fields) {
      manifest.fields.push_back(internal::spec_of(draft));
      if (drafts.changed) manifest.rules.push_back(draft.rule);
    }
    for (const FieldRule& rule : manifest.rules) as_url(rule.name + rule.from + rule.pointer);
    for (std::size_t p = 1; p < adoption.parts.size(); ++p) {
      Manifest& joined = manifest.joined.emplace_back();
      joined.format = adoption.parts[p].format->name();
      joined.shards = list_shards(adoption.parts[p]);
    }
    const std::vector<Dataset>& sources = adoption.groups[0].datasets;
    if (drafts.changed || !sources[0].manifest()) return;
    manifest.libraries = sources[0].manifest()->libraries;
    Digest digest;
    for (const Dataset& source : sources) {
      if (!source.manifest() || source.manifest()->content_digest.empty()) return;
      digest += Digest::from_hex(source.manifest()->content_digest);
    }
    manifest.content_digest = digest.hex();
  }

  void make_entries(const Adoption& adoption) {
    for (const AdoptedPart& part : adoption.parts) {
      for (const AdoptedShard& shard : part.shards) {
        internal::IndexEntry& entry = entries_.emplace_back();
        entry.samples = shard.samples;
        const fs::path file = part.format->data_file(shard.path);
        // Folders cannot be known to be unchanged; token files need no index.
        if (file.empty() || part.format->name() == "tokens") continue;
        entry.stamp = internal::stamp_of(file);
        entry.index = shard.dataset->shard_index(shard.number, shard.part);
        entry.info = part.format->open(shard.path, entry.index, shard.dataset->access())->info();
      }
    }
  }

  std::string wids_text(const Adoption& adoption) const {
    require_tar(adoption, "wids");
    Json json = {{"__kind__", "wids-shard-index-v1"},
                 {"wids_version", 1},
                 {"name", as_url(options_.output.stem().string())},
                 {"shardlist", Json::array()}};
    for (const ManifestShard& shard : report_.manifest.shards) {
      json["shardlist"].push_back(
          {{"url", shard.url}, {"nsamples", shard.samples}, {"filesize", shard.filesize}});
    }
    return json.dump(2) + "\n";
  }

  static void require_tar(const Adoption& adoption, const std::string& what) {
    if (adoption.parts[0].format->name() == "tar") return;
    refuse("--also",
           what + " is an index of tar files, the data are " +
               std::string(adoption.parts[0].format->name()),
           {});
  }

  void add_dali(const Adoption& adoption, std::vector<std::pair<fs::path, std::string>>& texts) {
    require_tar(adoption, "dali");
    std::set<fs::path> names;
    for (const AdoptedShard& shard : adoption.parts[0].shards) {
      const fs::path name = shard.path.stem().native() + ".idx";
      const fs::path path =
          (options_.beside || directory_.empty() ? shard.path.parent_path() : directory_) / name;
      if (!names.insert(path).second) {
        refuse(path.string(), "two shards have this name", "add --beside, or rename one");
      }
      texts.emplace_back(path, tar::dali_index(shard.path));
    }
  }

  void check_beside() const {
    const bool indexed = std::any_of(entries_.begin(), entries_.end(),
                                     [](const auto& entry) { return !entry.index.empty(); });
    if (options_.beside && options_.output.empty() && !options_.dali && !indexed) {
      refuse("--beside", "folders and token files have no index that could be kept",
             "write a manifest with --output");
    }
  }

  void write(const Adoption& adoption, const std::vector<std::pair<fs::path, std::string>>& texts) {
    for (const auto& [path, text] : texts) {
      internal::write_file(path, as_bytes(text));
      report_.files.push_back(path);
    }
    if (options_.beside) write_beside(adoption);
    if (options_.output.empty()) return;
    const fs::path file = directory_ / options_.output.filename();
    const bool indexed = std::any_of(entries_.begin(), entries_.end(),
                                     [](const auto& entry) { return !entry.index.empty(); });
    if (indexed && !options_.beside) {
      report_.manifest.index = as_url(options_.output.stem().string() + ".index");
      internal::write_index_file(directory_ / report_.manifest.index, entries_);
      report_.files.push_back(directory_ / report_.manifest.index);
    }
    save_manifest(file, report_.manifest);
    report_.files.push_back(file);
  }

  void write_beside(const Adoption& adoption) {
    std::size_t number = 0;
    for (const AdoptedPart& part : adoption.parts) {
      for (const AdoptedShard& shard : part.shards) {
        const internal::IndexEntry& entry = entries_[number++];
        if (entry.index.empty()) continue;
        const fs::path path = internal::sidecar_path(shard.path);
        internal::write_index_file(path, {&entry, 1});
        report_.files.push_back(path);
      }
    }
  }

  const IndexOptions& options_;
  const Observer& observer_;
  fs::path directory_;  // of the output
  IndexReport report_;
  std::vector<internal::IndexEntry> entries_;
};

}  // namespace

IndexReport index(const IndexOptions& options, const Observer& observer) {
  check_options(options);
  return Indexer(options, observer).run();
}

}  // namespace shardmill
