// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/source_set.h"

#include <shardmill/formats/error.h>

#include <algorithm>

#include "converters/internal/adoption.h"
#include "converters/sources/pack_source.h"
#include "converters/sources/pair_source.h"
#include "converters/sources/source_options.h"
#include "formats/internal/token_format.h"

namespace shardmill::internal {

namespace {

SourcePtr open_source_spec(const std::string& spec, const ConvertOptions& options) {
  if (is_list(spec)) return list_source(spec, options);
  if (options.seq_len > 0) {
    return dataset_source(Dataset::open(token_path(spec, options.dtype, options.seq_len).string()));
  }
  Dataset dataset = Dataset::open(spec);
  if (dataset.size() == 0) {
    throw Error(ErrorCode::kNotFound, spec, {}, "holds no samples (" + dataset.kind_reason() + ")",
                "give a folder of class directories with files, or shards");
  }
  return dataset_source(std::move(dataset));
}

// All sources in their order; array files stand for one, each a field.
std::vector<SourcePtr> open_all(const std::vector<std::string>& specs,
                                const ConvertOptions& options) {
  std::vector<SourcePtr> sources;
  std::vector<std::string> arrays;
  const auto take_arrays = [&] {
    if (!arrays.empty()) sources.push_back(array_source(arrays));
    arrays.clear();
  };
  for (const std::string& spec : specs) {
    if (options.seq_len == 0 && is_array_file(spec)) {
      arrays.push_back(spec);
      continue;
    }
    take_arrays();
    sources.push_back(open_source_spec(spec, options));
  }
  take_arrays();
  return sources;
}

}  // namespace

SourceSet::SourceSet(const std::vector<std::string>& specs, const ConvertOptions& options,
                     const Observer& observer) {
  if (specs.empty()) throw Error(ErrorCode::kInvalidArgument, {}, {}, "no source is given");
  if (!options.classes.empty()) classes_ = load_classes(options.classes);
  for (SourcePtr source : open_all(specs, options)) {
    if (!options.pairs.empty()) {
      source = pair_source(std::move(source), options.pairs, options.pair_optional);
    }
    if (options.pack > 0) {
      source = pack_source(std::move(source), options.pack, options.eos, options.dtype, observer);
    }
    add(std::move(source), options);
  }
}

void SourceSet::add(SourcePtr source, const ConvertOptions& options) {
  size_ += source->size();
  const std::vector<std::string> own = source->classes();
  if (options.classes.empty()) {
    if (classes_.empty()) classes_ = own;
    if (!own.empty() && own != classes_) {
      throw Error(ErrorCode::kInvalidArgument, source->name(), {},
                  "numbers its classes differently than " + sources_.front()->name(),
                  "merge sources that have the same class directories, or give --classes");
    }
  }
  for (const std::string& name : own) {
    if (std::find(classes_.begin(), classes_.end(), name) != classes_.end()) continue;
    throw Error(ErrorCode::kInvalidArgument, source->name(), {},
                "has the class \"" + escape(name) + "\", which " + escape(options.classes) +
                    " does not name",
                "add it there, or leave it out of the source");
  }
  sources_.push_back(std::move(source));
}

SourceSet SourceSet::attach(const std::vector<Stored>& stored, std::vector<std::string> classes,
                            std::shared_ptr<const void> owner) {
  SourceSet set;
  set.owner_ = std::move(owner);
  set.classes_ = std::move(classes);
  for (const Stored& source : stored) {
    set.size_ += set.sources_.emplace_back(attach_source(source.kind, source.flat))->size();
  }
  return set;
}

std::vector<std::string> SourceSet::warnings() const {
  std::vector<std::string> all;
  for (const SourcePtr& source : sources_) {
    const std::vector<std::string> own = source->warnings();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

std::string SourceSet::name() const { return sources_.front()->name(); }

std::pair<std::size_t, std::uint64_t> SourceSet::locate(std::uint64_t n) const noexcept {
  std::size_t s = 0;
  while (n >= sources_[s]->size()) n -= sources_[s++]->size();
  return {s, n};
}

std::string SourceSet::shard_path(std::uint64_t n) const {
  const auto [s, inside] = locate(n);
  return sources_[s]->path_of(inside);
}

std::string SourceSet::place_of(std::uint64_t n) const {
  const auto [s, inside] = locate(n);
  return sources_[s]->place_of(inside);
}

std::vector<std::int64_t> SourceSet::class_numbers(std::size_t source) const {
  std::vector<std::int64_t> numbers;
  const std::vector<std::string> own = sources_[source]->classes();
  if (own.empty() || own == classes_) return numbers;
  for (const std::string& name : own) {
    numbers.push_back(std::find(classes_.begin(), classes_.end(), name) - classes_.begin());
  }
  return numbers;
}

SourceReader::SourceReader(const SourceSet& sources, const ConvertOptions& options)
    : sources_(sources) {
  for (std::size_t s = 0; s < sources.sources().size(); ++s) {
    readers_.push_back(sources.sources()[s]->open());
    shapes_.emplace_back(options, sources.class_numbers(s));
  }
}

void SourceReader::read(std::uint64_t n, SampleView& out) {
  const auto [s, inside] = sources_.locate(n);
  readers_[s]->read(inside, out);
  if (!shapes_[s].identity()) shapes_[s].apply(out, sources_.shard_path(n));
}

void SourceReader::peek(std::uint64_t n, SampleView& out) {
  const auto [s, inside] = sources_.locate(n);
  readers_[s]->peek(inside, out);
  if (!shapes_[s].identity()) shapes_[s].apply(out, sources_.shard_path(n));
}

void SourceReader::will_need(std::uint64_t n) noexcept {
  if (n >= sources_.size()) return;
  const auto [s, inside] = sources_.locate(n);
  readers_[s]->will_need(inside);
}

}  // namespace shardmill::internal
