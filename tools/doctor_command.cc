// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <shardmill/formats/error.h>
#include <shardmill/loader/system/cpus.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tools/command.h"
#include "tools/doctor/checks.h"

namespace shardmill::tools {

namespace {

class DoctorCommand : public Command {
 public:
  std::string summary() const override {
    return "Say what this machine allows a loader and what to change";
  }
  std::string example() const override { return "shardmill doctor photos/"; }

  void define(CLI::App& app) override {
    app.add_option("dataset", dataset_, "Also look at the file system of this directory or file")
        ->type_name("DATASET");
  }

  int run(Console& console) override {
    if (!dataset_.empty() && !std::filesystem::exists(dataset_)) {
      throw Error(ErrorCode::kNotFound, dataset_, "", "no such file or directory",
                  "name a directory or file that exists");
    }
    nlohmann::ordered_json checks = nlohmann::ordered_json::array();
    for (const doctor::Check& check : doctor::look_around(dataset_)) {
      const char* const state = check.warning ? "warning" : "ok";
      checks.push_back({{"name", check.name},
                        {"state", state},
                        {"found", check.found},
                        {"advice", check.advice}});
      if (console.json) continue;
      console.print(fmt::format("{:<8} {:<11} {}{}", state, check.name, check.found,
                                check.advice.empty() ? "" : "; " + check.advice));
    }
    if (console.json) {
      console.print_json({{"checks", checks}, {"recommended", {{"num_workers", cpu_share()}}}});
    } else {
      console.print(fmt::format("start with num_workers = {} or auto", cpu_share()));
    }
    return 0;
  }

 private:
  std::string dataset_;
};

}  // namespace

std::unique_ptr<Command> make_doctor_command() { return std::make_unique<DoctorCommand>(); }

}  // namespace shardmill::tools
