// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <shardmill/converters/streams.h>
#include <shardmill/formats/digest.h>
#include <shardmill/formats/error.h>

#include <nlohmann/json.hpp>

#include "tools/command.h"
#include "tools/inspect_output.h"

namespace shardmill::tools {

namespace {

using Json = nlohmann::ordered_json;

class InspectCommand : public Command {
 public:
  std::string summary() const override {
    return "Describe a dataset, one of its samples, or a file";
  }
  std::string example() const override { return "shardmill inspect out/ --sample 0"; }

  void define(CLI::App& app) override {
    app.add_option("dataset", spec_, "A dataset, shard, image or .npy file; - is a tar on stdin")
        ->type_name("DATASET|FILE")
        ->required();
    CLI::Option* list = app.add_flag("--list", list_, "Print all keys, one a line");
    app.add_flag("--hash", hash_, "With SHA-256 sums: of fields (--list), members, arrays, pixels");
    app.add_option("--sample", sample_, "Show one sample")->type_name("N|KEY")->excludes(list);
    app.add_option("--extract", extract_, "Write its fields (or all samples') as DIR/KEY.FIELD")
        ->type_name("DIR")
        ->excludes(list);
    add_kind_option(app, kind_);
    app.add_flag("--strict", strict_, "Warnings make the exit code 1");
  }

  int run(Console& console) override {
    const bool plain = !list_ && sample_.empty() && extract_.empty();
    if (is_stream(spec_)) return inspect_in_order(console);
    if (plain) {
      if (const auto payload = describe_payload_file(spec_, hash_)) {
        print_description(Json::parse(*payload), console);
        return 0;
      }
    }
    std::optional<Dataset> dataset;
    try {
      dataset = Dataset::open(with_kind(spec_, kind_));
    } catch (const Error& error) {
      // A file of a known format is worth a description even if it does not hold samples.
      const bool no_samples =
          error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kInvalidArgument;
      if (!plain || !no_samples || !std::filesystem::exists(spec_)) throw;
      const std::string& remedy = error.info().remedy;
      return describe_only(error.info().cause + (remedy.empty() ? "" : "; " + remedy), console);
    }
    if (plain && dataset->size() == 0) return describe_only("holds no samples", console);
    if (list_) return list(&*dataset, console);
    if (!plain) return show_samples(&*dataset, console);
    return show_dataset(*dataset, console);
  }

 private:
  int finish(bool warnings) const { return strict_ && warnings ? 1 : 0; }

  static void print_description(const Json& json, Console& console) {
    if (console.json) return console.print_json(json);
    for (const auto& [name, value] : json.items()) {
      if (!value.is_array() || value.empty() || !value[0].is_object()) {
        console.print(name + ": " + (value.is_string() ? value.get<std::string>() : value.dump()));
        continue;
      }
      console.print(name + ":");
      for (const Json& entry : value) console.print("  " + entry.dump());
    }
  }

  int describe_only(const std::string& why, Console& console) const {
    Json json = Json::parse(describe_shard(spec_, hash_));
    json["samples"] = 0;
    json["warnings"] = {why};
    print_description(json, console);
    return finish(true);
  }

  int show_dataset(const Dataset& dataset, Console& console) const {
    const Inspection inspection = inspect(dataset, console.observer());
    Json json = to_json(inspection);
    const bool files = hash_ && dataset.shards().size() == 1 && !dataset.format().suffix().empty();
    Json description;
    if (files) description = Json::parse(describe_shard(dataset.shards()[0].path, true));
    if (console.json) {
      json.update(description.is_object() ? description : Json::object());
      console.print_json(json);
    } else {
      print_inspection(inspection, spec_, console);
      if (files) print_description(description, console);
    }
    return finish(!inspection.warnings.empty());
  }

  // Calls `visit` for samples first ... end - 1 of a dataset.
  static void visit(const Dataset& dataset, std::uint64_t first, std::uint64_t end,
                    const VisitSample& visit) {
    DatasetReader reader(dataset);
    SampleView sample;
    for (std::uint64_t n = first; n < end; ++n) {
      reader.read(n, sample);
      if (!visit(n, sample, dataset.shards()[dataset.shard_of(n)].path.string())) return;
    }
  }

  // A line, or several with hashes, per sample; kept in `records` for JSON.
  void list_sample(const SampleView& sample, Json& records, Console& console) const {
    if (!hash_ && console.json) records.push_back(escape(sample.key));
    if (!hash_ && !console.json) console.print(escape(sample.key));
    for (const FieldView& field : sample.fields) {
      if (!hash_) break;
      const FieldSum sum = sum_field(field);
      if (console.json) {
        records.push_back({{"key", escape(sample.key)},
                           {"field", escape(field.name)},
                           {"bytes", sum.bytes},
                           {"sha256", sum.sha256}});
      } else {
        console.print(fmt::format("{}\t{}\t{}\t{}", escape(sample.key), escape(field.name),
                                  sum.bytes, sum.sha256));
      }
    }
  }

  int list(const Dataset* dataset, Console& console) const {
    Json records = Json::array();
    const VisitSample each = [&](std::uint64_t, const SampleView& sample, const std::string&) {
      list_sample(sample, records, console);
      return true;
    };
    if (dataset != nullptr) {
      visit(*dataset, 0, dataset->size(), each);
    } else {
      visit_stream(spec_, console.observer(), each);
    }
    if (console.json) console.print_json(Json{{hash_ ? "fields" : "keys", records}});
    return 0;
  }

  int show_samples(const Dataset* dataset, Console& console) const {
    Json json = Json::object();
    Json files = Json::array();
    const VisitSample each = [&](std::uint64_t n, const SampleView& sample,
                                 const std::string& shard) {
      if (!sample_.empty() && console.json) json = to_json(sample, n);
      if (!sample_.empty() && !console.json) print_sample(sample, n, console);
      if (extract_.empty()) return false;
      for (const auto& file : extract_sample(sample, extract_, shard)) {
        files.push_back(escape(file.string()));
      }
      return true;
    };
    if (dataset == nullptr) {
      show_stream(each, console);
    } else if (sample_.empty()) {
      visit(*dataset, 0, dataset->size(), each);
    } else {
      DatasetReader reader(*dataset);
      const std::uint64_t n = find_sample(reader, sample_, console.observer());
      visit(*dataset, n, n + 1, each);
    }
    if (!console.json) {
      // Only now: a reader of the list that closes its end (head) must not end the extraction.
      for (const Json& file : files) console.print(file.get<std::string>());
      return 0;
    }
    if (!extract_.empty()) json["files"] = files;
    console.print_json(json);
    return 0;
  }

  // The same for what can only be read in order: a number or key is searched for from the front.
  void show_stream(const VisitSample& each, Console& console) const {
    bool found = sample_.empty();
    visit_stream(spec_, console.observer(),
                 [&](std::uint64_t n, const SampleView& sample, const std::string& shard) {
                   if (sample_.empty()) return each(n, sample, shard);
                   if (sample.key != sample_ && std::to_string(n) != sample_) return true;
                   found = true;
                   each(n, sample, shard);
                   return false;
                 });
    if (found) return;
    throw Error(ErrorCode::kNotFound, spec_, sample_place(sample_),
                "there is no sample of this key or number",
                "shardmill inspect --list shows the keys");
  }

  int inspect_in_order(Console& console) const {
    if (list_) return list(nullptr, console);
    if (!sample_.empty() || !extract_.empty()) return show_samples(nullptr, console);
    const bool once = spec_ == "-" && hash_;  // members or samples: there is one pass
    Inspection inspection;
    if (!once) inspection = inspect_stream(spec_, console.observer());
    Json json = once ? Json::object() : to_json(inspection);
    if (hash_ || inspection.samples == 0) {
      json.update(Json::parse(describe_stream(spec_, hash_)));
      if (!once) json["warnings"] = inspection.warnings;
      print_description(json, console);
    } else if (console.json) {
      console.print_json(json);
    } else {
      print_inspection(inspection, spec_, console);
    }
    return finish(!inspection.warnings.empty());
  }

  std::string spec_;
  std::string kind_;
  std::string sample_;
  std::string extract_;
  bool list_ = false;
  bool hash_ = false;
  bool strict_ = false;
};

}  // namespace

std::unique_ptr<Command> make_inspect_command() { return std::make_unique<InspectCommand>(); }

}  // namespace shardmill::tools
