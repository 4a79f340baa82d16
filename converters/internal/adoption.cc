// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/adoption.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "formats/internal/token_format.h"
#include "formats/internal/view.h"

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kProgressEvery = 256;  // samples
constexpr std::size_t kLongestClassFile = 16 << 20;

[[noreturn]] void refuse(const std::string& path, const std::string& cause,
                         const std::string& remedy) {
  throw Error(ErrorCode::kInvalidArgument, path, {}, cause, remedy);
}

std::string spec_of(const std::string& source, const IndexOptions& options) {
  if (options.dtype.empty() && options.seq_len == 0) return source;
  if (options.dtype.empty()) refuse("--dtype", "is missing", "give it together with --seq-len");
  return token_path(source, options.dtype, options.seq_len).string();
}

// The rules of one source after those of the sources before it; they must say the same.
void merge_rules(const Dataset& dataset, bool first, AdoptedGroup& group) {
  if (first) {
    group.rules = dataset.rules();
    return;
  }
  std::vector<FieldRule> own = dataset.rules();
  bool same = own.size() == group.rules.size();
  for (std::size_t i = 0; same && i < own.size(); ++i) {
    FieldRule& rule = group.rules[i];
    if (rule.value == FieldValue::kShard && own[i].value == FieldValue::kShard) {
      rule.numbers.insert(rule.numbers.end(), own[i].numbers.begin(), own[i].numbers.end());
      own[i].numbers = rule.numbers;
    }
    same = own[i] == rule;
  }
  if (same) return;
  refuse(dataset.spec(),
         "its fields are made in another way than those of " + group.datasets.front().spec(),
         "index sources that are alike together, or convert them into one dataset");
}

void add_parts(const Dataset& dataset, bool first, AdoptedGroup& group, Adoption& out) {
  for (std::size_t p = 0; p < dataset.parts().size(); ++p) {
    if (first) out.parts.push_back({dataset.parts()[p].format, {}});
    if (group.first_part + p >= out.parts.size() ||
        out.parts[group.first_part + p].format != dataset.parts()[p].format) {
      refuse(dataset.spec(), "is of another format than " + group.datasets.front().spec(),
             "index sources of one format, or convert them into one dataset");
    }
    const bool listed = p == 0 && dataset.manifest();
    const auto& shards = dataset.parts()[p].shards;
    for (std::size_t s = 0; s < shards.size(); ++s) {
      out.parts[group.first_part + p].shards.push_back(
          {shards[s].path, shards[s].samples,
           listed ? dataset.manifest()->shards[s].xxh3 : std::string(), nullptr, p, s});
    }
  }
}

AdoptedGroup open_group(const std::vector<std::string>& specs, const IndexOptions& options,
                        Adoption& out) {
  AdoptedGroup group;
  group.first_part = out.parts.size();
  for (const std::string& spec : specs) {
    const bool first = group.datasets.empty();
    const Dataset& dataset = group.datasets.emplace_back(
        Dataset::open(first || specs.size() > 1 ? spec_of(spec, options) : spec));
    if (dataset.size() == 0) {
      throw Error(ErrorCode::kNotFound, spec, {},
                  "holds no samples (" + dataset.kind_reason() + ")", "check the path");
    }
    add_parts(dataset, first, group, out);
    merge_rules(dataset, first, group);
    group.samples += dataset.size();
  }
  return group;
}

// Which dataset has the index of each shard: known once the datasets stay where they are.
void link_datasets(Adoption& out) {
  for (const AdoptedGroup& group : out.groups) {
    std::vector<std::size_t> next(out.parts.size());
    for (const Dataset& dataset : group.datasets) {
      for (std::size_t p = 0; p < dataset.parts().size(); ++p) {
        const std::size_t part = group.first_part + p;
        for (std::size_t s = 0; s < dataset.parts()[p].shards.size(); ++s) {
          out.parts[part].shards[next[part]++].dataset = &dataset;
        }
      }
    }
  }
}

std::vector<std::string> class_list(const Json& json, const std::string& from) {
  std::vector<std::string> names;
  if (json.is_array()) {
    for (const Json& name : json) names.push_back(name.get<std::string>());
    return names;
  }
  names.resize(json.size());
  std::set<std::uint64_t> numbers;
  for (const auto& [name, number] : json.items()) {
    const auto at = number.get<std::uint64_t>();
    if (at >= names.size() || !numbers.insert(at).second) {
      refuse(from, "its numbers are not 0, 1, 2 ... each once", "write {\"name\": number, ...}");
    }
    names[at] = name;
  }
  return names;
}

std::vector<std::string> text_lines(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = trimmed(std::string_view(text).substr(at, end - at));
    if (!line.empty()) names.emplace_back(line);
    at = end + 1;
  }
  return names;
}

std::vector<std::string> read_classes(const std::string& from) {
  std::error_code error;
  // Also a pipe, as `--classes <(...)` gives.
  const bool file = fs::exists(from, error) && !fs::is_directory(from, error);
  const bool json_name = fs::path(from).extension() == ".json";
  for (const Format* format : all_formats()) {
    if (!file || (!json_name && format->recognises(from))) return Dataset::open(from).classes();
  }
  std::ifstream in(from, std::ios::binary);
  std::string text(kLongestClassFile + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kLongestClassFile) refuse(from, "is no list of class names", {});
  if (!json_name) return text_lines(text);
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_object() && json.contains("shardlist")) return Dataset::open(from).classes();
  try {
    if (json.is_array() || json.is_object()) return class_list(json, from);
  } catch (const Json::exception&) {
    // said below
  }
  refuse(from, "is no JSON list of class names", "write [\"cat\", \"dog\"]");
}

}  // namespace

Adoption adopt(const IndexOptions& options) {
  if (options.sources.empty()) refuse({}, "no source is given", "name the data to index");
  Adoption out;
  out.groups.push_back(open_group(options.sources, options, out));
  const std::vector<Dataset>& sources = out.groups[0].datasets;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    out.source_of_shard.insert(out.source_of_shard.end(), sources[i].shards().size(), i);
    if (i == 0) out.classes = sources[i].classes();
    if (sources[i].classes() == out.classes || !options.class_from.empty()) continue;
    refuse(sources[i].spec(), "numbers its classes differently than " + sources[0].spec(),
           "index sources that have the same classes, or convert them with --classes");
  }
  for (const std::string& spec : options.with) {
    IndexOptions plain;
    out.groups.push_back(open_group({spec}, plain, out));
    if (out.groups.back().samples == out.groups[0].samples) continue;
    refuse(spec,
           "holds " + std::to_string(out.groups.back().samples) + " samples, " +
               options.sources[0] + " " + std::to_string(out.groups[0].samples),
           "join sets of equal length");
  }
  link_datasets(out);
  return out;
}

void visit_group(const AdoptedGroup& group, std::string_view phase, const Observer& observer,
                 const std::function<void(const SampleView&)>& visit) {
  Progress progress{phase, 0, group.samples, 0, 0};
  SampleView sample;
  for (const Dataset& dataset : group.datasets) {
    DatasetReader reader(dataset);
    for (std::uint64_t n = 0; n < reader.size(); ++n) {
      if (progress.samples++ % kProgressEvery == 0) {
        if (observer.progress) observer.progress(progress);
        if (observer.stop.stop_requested()) throw Interrupted();
      }
      reader.peek(n, sample);
      visit(sample);
    }
  }
}

std::vector<std::string> load_classes(const std::string& from) {
  std::vector<std::string> names = read_classes(from);
  if (names.empty()) refuse(from, "names no classes", "give a file with one class name a line");
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) {
      refuse(from, "names the class \"" + escape(name) + "\" twice", "remove one of them");
    }
  }
  return names;
}

}  // namespace shardmill::internal
