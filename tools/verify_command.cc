// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <shardmill/converters/verify.h>
#include <shardmill/formats/error.h>

#include <nlohmann/json.hpp>

#include "tools/command.h"

namespace shardmill::tools {

namespace {

using Json = nlohmann::ordered_json;

Json to_json(const std::vector<Damage>& damaged) {
  Json list = Json::array();
  for (const Damage& damage : damaged) {
    list.push_back({{"shard", escape(damage.shard)},
                    {"key", escape(damage.key)},
                    {"field", escape(damage.field)},
                    {"cause", damage.cause}});
  }
  return list;
}

Json to_json(const VerifyReport& report) {
  Json json = {{"samples", report.samples},
               {"damaged", to_json(report.damaged)},
               {"content_digest", report.content_digest}};
  if (!report.damaged.empty()) json["rebuild"] = report.rebuild;
  if (!report.equal) return json;
  json["equal"] = *report.equal;
  json["first_differences"] = Json::array();
  for (const Difference& difference : report.differences) {
    json["first_differences"].push_back({{"key", escape(difference.key)},
                                         {"field", escape(difference.field)},
                                         {"cause", difference.cause}});
  }
  json["other_damaged"] = to_json(report.other_damaged);
  return json;
}

class VerifyCommand : public Command {
 public:
  std::string summary() const override {
    return "Read every byte of a dataset and say what is damaged, or whether two are equal";
  }
  std::string example() const override { return "shardmill verify photos/ out/"; }

  void define(CLI::App& app) override {
    app.add_option("dataset", dataset_, "The dataset to check; - is a tar on stdin")
        ->type_name("DATASET")
        ->required();
    app.add_option("other", other_, "Compare with this dataset, in any format and order")
        ->type_name("OTHER");
    add_kind_option(app, kind_);
    app.add_flag("--decode", options_.decode, "Also decode every image");
    app.add_option("--shards", options_.shards, "Check only shards whose name matches")
        ->type_name("PATTERN");
    app.add_option("--jobs", options_.jobs, "Processes; default: usable CPUs")
        ->type_name("N")
        ->check(CLI::PositiveNumber);
  }

  int run(Console& console) override {
    dataset_ = with_kind(dataset_, kind_);
    const VerifyReport report = other_.empty()
                                    ? verify(dataset_, options_, console.observer())
                                    : verify_equal(dataset_, other_, options_, console.observer());
    if (console.json) {
      console.print_json(to_json(report));
    } else {
      print(report, console);
    }
    return report.ok() ? 0 : 1;
  }

 private:
  void print(const VerifyReport& report, Console& console) const {
    for (const std::vector<Damage>* list : {&report.damaged, &report.other_damaged}) {
      for (const Damage& damage : *list) {
        const std::string place =
            damage.key.empty() ? std::string() : sample_place(damage.key, damage.field);
        console.print(Error(ErrorCode::kDataLoss, damage.shard, place, damage.cause).what());
      }
    }
    for (const Difference& difference : report.differences) {
      console.print(sample_place(difference.key, difference.field) + ": " + difference.cause);
    }
    console.print(fmt::format(
        "{}: {} samples, {}, content digest {}", report.damaged.empty() ? "undamaged" : "damaged",
        human_count(report.samples), human_bytes(report.bytes), report.content_digest));
    if (report.equal) console.print(*report.equal ? "equal" : "not equal");
    if (!report.damaged.empty()) {
      console.note(report.rebuild.empty()
                       ? "copy the damaged shards again, or convert the data again"
                       : "to make the damaged shards again: " + report.rebuild);
    }
  }

  std::string dataset_;
  std::string other_;
  std::string kind_;
  VerifyOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_verify_command() { return std::make_unique<VerifyCommand>(); }

}  // namespace shardmill::tools
