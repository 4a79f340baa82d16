// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/field_draft.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <map>
#include <set>

#include "formats/internal/view.h"

namespace shardmill::internal {

namespace {

constexpr std::size_t kMaxClasses = 1'000'000;  // more different texts are no classes
constexpr std::string_view kClass = "cls";

[[noreturn]] void refuse(const std::string& option, const std::string& cause,
                         const std::string& remedy) {
  throw Error(ErrorCode::kInvalidArgument, option, {}, cause, remedy);
}

bool is_class_value(FieldValue value) {
  return value == FieldValue::kNumber || value == FieldValue::kName || value == FieldValue::kShard;
}

// What the values at one place are as labels.
struct Labels {
  bool numbers = true;  // every one is an integer
  bool texts = true;    // every one is a text
  std::string first_bad;
  std::set<std::string> names;
  std::int64_t least = 0;
  std::int64_t most = -1;
  FieldScan scan;  // of the labels as a field cls

  void add(std::string_view key, const FieldView& field, const std::string& pointer) {
    std::optional<std::int64_t> number;
    std::optional<std::string> text;
    if (pointer.empty()) {
      number = label_number(field);
      const std::string_view bytes = as_text(field.bytes);
      if (field.array == nullptr && !bytes.starts_with("\x93NUMPY")) text = trimmed(bytes);
    } else if (auto label = label_at(field.bytes, pointer)) {
      number = label->number;
      text = number && label->text.empty() ? std::to_string(*number) : std::move(label->text);
    }
    if (!number && !text && first_bad.empty()) first_bad = sample_place(key, field.name);
    numbers = numbers && number;
    texts = texts && text;
    if (number) {
      least = std::min(least, *number);
      most = std::max(most, *number);
    }
    if (text && names.size() <= kMaxClasses) names.insert(*text);
    const std::string label = number ? std::to_string(*number) : text.value_or(std::string());
    const FieldView as_class{kClass, as_bytes(label)};
    scan.add({key, std::span(&as_class, 1)});
  }
};

class Drafter {
 public:
  Drafter(const Adoption& adoption, const IndexOptions& options, const Observer& observer)
      : adoption_(adoption), options_(options), observer_(observer) {}

  FieldDrafts draft() {
    out_.classes = adoption_.classes;
    for (std::size_t g = 0; g < adoption_.groups.size(); ++g) add_group(g);
    check_names();
    for (const auto& [from, to] : options_.rename) rename(from, to);
    check_names();
    if (!options_.class_from.empty()) take_class();
    if (!options_.classes.empty()) order_classes();
    if (!options_.fields.empty()) select();
    std::sort(out_.fields.begin(), out_.fields.end(), by_name);
    out_.changed =
        out_.changed || adoption_.groups.size() > 1 || !adoption_.groups[0].rules.empty();
    return std::move(out_);
  }

 private:
  static bool by_name(const FieldDraft& a, const FieldDraft& b) {
    return a.rule.name < b.rule.name;
  }

  void add_group(std::size_t g) {
    const AdoptedGroup& group = adoption_.groups[g];
    FieldScan scan;
    visit_group(group, "inspecting", observer_, [&](const SampleView& s) { scan.add(s); });
    if (g == 0) out_.class_sorted = scan.class_sorted();
    for (const FieldSummary& summary : scan.fields()) {
      FieldDraft draft{{summary.name, static_cast<std::uint32_t>(group.first_part), summary.name},
                       summary,
                       g,
                       summary.name};
      const auto rule = std::find_if(group.rules.begin(), group.rules.end(),
                                     [&](const FieldRule& r) { return r.name == summary.name; });
      if (rule != group.rules.end()) {
        draft.rule = *rule;
        draft.rule.part += static_cast<std::uint32_t>(group.first_part);
      }
      out_.fields.push_back(std::move(draft));
    }
  }

  void check_names() {
    std::sort(out_.fields.begin(), out_.fields.end(), by_name);
    const auto twice = std::adjacent_find(
        out_.fields.begin(), out_.fields.end(),
        [](const FieldDraft& a, const FieldDraft& b) { return a.rule.name == b.rule.name; });
    if (twice == out_.fields.end()) return;
    refuse(twice->rule.name, "two fields would have this name",
           "rename one; of sets to be joined, index one alone with --rename first");
  }

  FieldDraft& find(const std::string& name, const std::string& option) {
    std::string known;
    for (FieldDraft& field : out_.fields) {
      if (field.rule.name == name) return field;
      known += (known.empty() ? "" : ", ") + escape(field.rule.name);
    }
    refuse(option, "there is no field \"" + escape(name) + "\"", "the fields are " + known);
  }

  // Reads the labels that stand at `pointer` in a field.
  Labels labels_of(const FieldDraft& field, const std::string& pointer) {
    Labels labels;
    visit_group(adoption_.groups[field.group], "reading labels", observer_,
                [&](const SampleView& sample) {
                  if (const FieldView* value = sample.find(field.found_as)) {
                    labels.add(sample.key, *value, pointer);
                  }
                });
    return labels;
  }

  // Turns the field into class numbers. Returns false if its values are neither numbers nor texts.
  bool become_class(FieldDraft& field, const std::string& pointer) {
    if (is_class_value(field.rule.value)) return pointer.empty();
    const Labels labels = labels_of(field, pointer);
    if (!labels.numbers && !labels.texts) {
      first_bad_ = labels.first_bad;
      return false;
    }
    field.rule.value = labels.numbers ? FieldValue::kNumber : FieldValue::kName;
    field.rule.pointer = pointer;
    most_ = labels.most;
    if (!labels.numbers) {
      if (labels.names.size() > kMaxClasses) {
        refuse(field.rule.name, "has more than a million different texts", "choose another field");
      }
      out_.classes.assign(labels.names.begin(), labels.names.end());
    }
    if (labels.numbers && field.found_as != kClass) out_.classes.clear();
    out_.class_sorted = labels.scan.class_sorted();
    return true;
  }

  void rename(const std::string& from, const std::string& to) {
    FieldDraft& field = find(from, "--rename");
    if (to.empty() || to.find('/') != std::string::npos || to.find('\0') != std::string::npos) {
      refuse("--rename", "\"" + escape(to) + "\" is no name of a field", "use letters and digits");
    }
    field.rule.name = to;
    out_.changed = true;
    if (to != kClass || become_class(field, {})) return;
    if (field.summary.array) field.rule.value = FieldValue::kSqueezed;
  }

  void take_class() {
    std::erase_if(out_.fields, [&](const FieldDraft& field) {
      return field.rule.name == kClass && options_.class_from != kClass &&
             !options_.class_from.starts_with("cls/");
    });
    out_.changed = true;
    if (options_.class_from == "source") return class_by_source();
    const std::size_t slash = options_.class_from.find('/');
    const std::string name = options_.class_from.substr(0, slash);
    const std::string pointer =
        slash == std::string::npos ? std::string() : options_.class_from.substr(slash);
    FieldDraft& source = find(name, "--class-from");
    FieldDraft field = source;
    field.rule.name = kClass;
    if (!become_class(field, pointer)) {
      refuse("--class-from",
             "\"" + escape(options_.class_from) + "\" gives no number or text" +
                 (first_bad_.empty() ? "" : " for " + first_bad_),
             "name a field with class numbers or names, or a place in a JSON field");
    }
    if (name == kClass) {
      source = std::move(field);
    } else {
      out_.fields.push_back(std::move(field));
    }
  }

  void class_by_source() {
    const auto& shards = adoption_.parts[0].shards;
    const auto& datasets = adoption_.groups[0].datasets;
    std::vector<std::string> names;
    for (std::size_t s = 0; s < shards.size(); ++s) {
      // One argument that stands for several shards: each is a source.
      const std::filesystem::path path =
          datasets.size() == 1
              ? shards[s].path
              : std::filesystem::path(options_.sources[adoption_.source_of_shard[s]]);
      names.push_back((path.has_filename() ? path : path.parent_path()).stem().string());
    }
    const std::set<std::string> distinct(names.begin(), names.end());
    out_.classes.assign(distinct.begin(), distinct.end());
    FieldDraft field;
    field.rule.name = kClass;
    field.rule.value = FieldValue::kShard;
    field.summary.kind = FieldKind::kClass;
    for (const std::string& name : names) {
      field.rule.numbers.push_back(std::distance(distinct.begin(), distinct.find(name)));
    }
    out_.class_sorted = distinct.size() > 1;
    out_.fields.push_back(std::move(field));
  }

  // Gives the classes the order of --classes.
  void order_classes() {
    std::vector<std::string> wanted = load_classes(options_.classes);
    FieldDraft& field = find(std::string(kClass), "--classes");
    out_.changed = true;
    if (field.rule.value == FieldValue::kAsStored && !become_class(field, {})) {
      refuse("--classes", "the field cls holds neither class numbers nor names", {});
    }
    std::map<std::string_view, std::int64_t> numbers;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      numbers.emplace(wanted[i], static_cast<std::int64_t>(i));
    }
    std::vector<std::int64_t> map;
    for (const std::string& name : out_.classes) {
      const auto at = numbers.find(name);
      if (at == numbers.end()) {
        refuse(options_.classes, "does not name the class \"" + escape(name) + "\" of the data",
               "add it");
      }
      map.push_back(at->second);
    }
    if (field.rule.value != FieldValue::kName) renumber(field.rule, map, wanted.size());
    out_.classes = std::move(wanted);
  }

  void renumber(FieldRule& rule, const std::vector<std::int64_t>& map, std::size_t classes) {
    if (map.empty()) {  // numbers without names: the list names them
      if (most_ >= static_cast<std::int64_t>(classes)) {
        refuse(
            options_.classes,
            "names " + std::to_string(classes) + " classes, the data have " + std::to_string(most_),
            "give a name for each number");
      }
      return;
    }
    if (rule.numbers.empty()) {
      rule.numbers = map;
      return;
    }
    for (std::int64_t& number : rule.numbers) {
      if (number >= 0 && number < static_cast<std::int64_t>(map.size())) {
        number = map[static_cast<std::size_t>(number)];
      }
    }
  }

  void select() {
    out_.changed = true;
    for (const std::string& name : options_.fields) find(name, "--fields");
    std::erase_if(out_.fields, [&](const FieldDraft& field) {
      const bool wanted_class = field.rule.name == kClass && !options_.class_from.empty();
      return !wanted_class && std::find(options_.fields.begin(), options_.fields.end(),
                                        field.rule.name) == options_.fields.end();
    });
    const bool has_class = std::any_of(out_.fields.begin(), out_.fields.end(),
                                       [](const FieldDraft& f) { return f.rule.name == kClass; });
    if (!has_class) {
      out_.classes.clear();
      out_.class_sorted = false;
    }
  }

  const Adoption& adoption_;
  const IndexOptions& options_;
  const Observer& observer_;
  FieldDrafts out_;
  std::string first_bad_;
  std::int64_t most_ = -1;
};

}  // namespace

FieldDrafts draft_fields(const Adoption& adoption, const IndexOptions& options,
                         const Observer& observer) {
  return Drafter(adoption, options, observer).draft();
}

FieldSpec spec_of(const FieldDraft& draft) {
  FieldSpec spec{draft.rule.name, draft.summary.kind, {}, draft.summary.optional};
  if (draft.summary.array) spec.array = *draft.summary.array;
  if (is_class_value(draft.rule.value)) {
    spec.kind = FieldKind::kClass;
    spec.array = {};
  }
  if (draft.rule.value == FieldValue::kSqueezed) std::erase(spec.array.shape, 1);
  return spec;
}

}  // namespace shardmill::internal
