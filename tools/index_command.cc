// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <shardmill/converters/index.h>
#include <shardmill/formats/error.h>

#include <nlohmann/json.hpp>

#include "tools/command.h"

namespace shardmill::tools {

namespace {

using Json = nlohmann::ordered_json;

class IndexCommand : public Command {
 public:
  std::string summary() const override {
    return "Make a dataset of data that stay where they are: adopt, join, rename, relabel";
  }
  std::string example() const override {
    return "shardmill index x.h5 --with y.h5 --rename y=cls --output pcam.json";
  }

  void define(CLI::App& app) override {
    app.add_option("sources", options_.sources, "Datasets, shards, folders or token files")
        ->type_name("SOURCE...")
        ->required();
    app.add_option("--output,-o", options_.output, "The manifest to write; then a DATASET")
        ->type_name("NAME.json");
    app.add_option("--with", options_.with, "Add the fields of a set of equal length")
        ->type_name("OTHER")
        ->expected(1)
        ->take_all();
    app.add_option("--fields", options_.fields, "Only these fields")
        ->type_name("A,B")
        ->delimiter(',')
        ->expected(1)
        ->take_all();
    app.add_option("--rename", renames_, "Give fields other names; cls becomes class numbers")
        ->type_name("A=B,...")
        ->delimiter(',')
        ->expected(1)
        ->take_all();
    app.add_option("--classes", options_.classes, "Class order: names in a file, or of a dataset")
        ->type_name("FILE|DATASET");
    app.add_option("--class-from", options_.class_from, "What the class of a sample is")
        ->type_name("source|FIELD|FIELD/json/pointer");
    app.add_option("--dtype", options_.dtype, "Sources are raw token files of this type")
        ->type_name("uint16");
    app.add_option("--seq-len", options_.seq_len, "Tokens in a sample")->type_name("L");
    app.add_option("--also", also_, "Write these indices of tars, too")
        ->type_name("wids,dali")
        ->delimiter(',')
        ->check(CLI::IsMember({"wids", "dali"}));
    add_kind_option(app, kind_);
    app.add_flag("--beside", options_.beside, "Write indices beside the shards: SHARD.index");
  }

  int run(Console& console) override {
    for (const std::string& rename : renames_) {
      const std::size_t equals = rename.find('=');
      if (equals == 0 || equals == std::string::npos || equals + 1 == rename.size()) {
        throw Error(ErrorCode::kInvalidArgument, "--rename", {},
                    "\"" + escape(rename) + "\" is not OLD=NEW", "for example y=cls");
      }
      options_.rename.emplace_back(rename.substr(0, equals), rename.substr(equals + 1));
    }
    for (std::string& source : options_.sources) source = with_kind(source, kind_);
    for (const std::string& also : also_) (also == "wids" ? options_.wids : options_.dali) = true;
    const IndexReport report = index(options_, console.observer());
    const Manifest& manifest = report.manifest;
    if (console.json) {
      console.print_json(to_json(report));
      return 0;
    }
    console.print(fmt::format("{} samples in {} shards ({}), fields: {}",
                              human_count(manifest.samples()), human_count(manifest.shards.size()),
                              manifest.format, field_names(manifest)));
    for (const auto& file : report.files) console.print("wrote " + escape(file.string()));
    if (!options_.output.empty()) {
      console.note("next: shardmill inspect " + shell_word(options_.output.string()));
    }
    return 0;
  }

 private:
  static std::string field_names(const Manifest& manifest) {
    std::string names;
    for (const FieldSpec& field : manifest.fields) {
      names += (names.empty() ? "" : ", ") + escape(field.name);
    }
    return names;
  }

  static Json to_json(const IndexReport& report) {
    const Manifest& manifest = report.manifest;
    Json json = {{"samples", manifest.samples()}, {"shards", manifest.shards.size()},
                 {"format", manifest.format},     {"order", manifest.order},
                 {"fields", Json::array()},       {"classes", Json::array()},
                 {"files", Json::array()},        {"warnings", report.warnings}};
    for (const FieldSpec& field : manifest.fields) {
      json["fields"].push_back(
          {{"name", escape(field.name)}, {"kind", field_kind_name(field.kind)}});
    }
    for (const std::string& name : manifest.classes) json["classes"].push_back(escape(name));
    for (const auto& file : report.files) json["files"].push_back(escape(file.string()));
    return json;
  }

  IndexOptions options_;
  std::string kind_;
  std::vector<std::string> renames_;
  std::vector<std::string> also_;
};

}  // namespace

std::unique_ptr<Command> make_index_command() { return std::make_unique<IndexCommand>(); }

}  // namespace shardmill::tools
