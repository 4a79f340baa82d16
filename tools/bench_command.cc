// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>
#include <shardmill/loader/system/cpus.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/bench/raw_form.h"
#include "tools/bench/report.h"
#include "tools/command.h"

namespace shardmill::tools {

namespace {

using namespace bench;

class BenchCommand : public Command {
 public:
  std::string summary() const override {
    return "Measure how fast training gets its data, by dataset and number of workers";
  }
  std::string example() const override {
    return "shardmill bench photos-tar/ photos-lmdb/ --workers 0,1,2";
  }

  void define(CLI::App& app) override {
    app.add_option("datasets", settings_.datasets, "Datasets of equal content; or one raw folder")
        ->type_name("DATASET...")
        ->required();
    app.add_option("--formats", settings_.formats, "Convert into these first, and compare them")
        ->type_name("tar,lmdb,hdf5")
        ->delimiter(',');
    app.add_option("--limit", settings_.limit, "Samples to convert; 0: all")
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--work-dir", settings_.work_dir, "Where to convert; default: $TMPDIR or /tmp")
        ->type_name("DIR");
    app.add_option("--workers,--num-workers", workers_, "Default: 0 to 2 x usable CPUs")
        ->type_name("0,1,2");
    app.add_option("--batch-size", settings_.batch_size, "Samples in a batch")
        ->type_name("N")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--decode", decode_,
                   "Size of decoded images, default 224; none: stored bytes or arrays")
        ->type_name("224|WxH|none");
    app.add_flag("--exact", exact_, "Decode bit-exactly, without scaled decoding");
    add_shuffle_option(app, settings_.shuffle);
    app.add_option("--seconds", settings_.seconds, "Measured time of one run")
        ->type_name("S")
        ->check(CLI::Range(0.01, 3600.0))
        ->capture_default_str();
    app.add_option("--repeats", settings_.repeats, "Runs of each combination")
        ->type_name("N")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    app.add_flag("--allow-different", settings_.allow_different,
                 "Compare datasets of unequal content");
  }

  int run(Console& console) override {
    resolve();
    const Observer observer = console.observer();
    Report report;
    report.machine = this_machine(settings_.datasets.front());
    announce(console);
    std::optional<WorkFolder> work;
    if (settings_.formats.empty()) {
      for (const std::string& dataset : settings_.datasets) {
        report.subjects.push_back(make_subject(dataset, settings_, observer));
      }
      if (!settings_.allow_different) check_equal_content(report.subjects, observer);
    } else {
      work.emplace(settings_.work_dir);
      report.subjects = convert_subjects(settings_, *work, observer);
    }
    const Measurement measurement = measure(report.subjects, settings_, observer);
    report.settings = settings_;
    report.ceilings = measurement.ceilings;
    report.rows = make_rows(measurement, report.machine.cpus);
    report.recommendation = recommend(report.rows);
    if (console.json) {
      console.print_json(to_json(report));
    } else {
      print(report, console);
    }
    return 0;
  }

 private:
  void announce(Console& console) const {
    const auto plural = [](std::size_t n, const char* what) {
      return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
    };
    const std::size_t datasets =
        settings_.formats.empty() ? settings_.datasets.size() : 1 + settings_.formats.size();
    console.note(fmt::format("measuring {} with {} of workers, {} each: about {} s{}",
                             plural(datasets, "dataset"),
                             plural(settings_.workers.size(), "number"),
                             plural(static_cast<std::size_t>(settings_.repeats), "run"),
                             std::ceil(expected_seconds(datasets, settings_)),
                             settings_.formats.empty() ? "" : ", after the conversion"));
  }

  // Turns words into settings, and refuses what makes no sense together.
  void resolve() {
    settings_.workers = workers_ ? parse_workers(*workers_) : default_workers(usable_cpus());
    if (decode_) settings_.decode = parse_decode(*decode_);
    if (exact_) settings_.mode = DecodeMode::kExact;
    for (const std::string& format : settings_.formats) find_format(format);
    if (!settings_.formats.empty() && settings_.datasets.size() != 1) {
      throw Error(ErrorCode::kInvalidArgument, "--formats", {},
                  "converts one raw dataset, but " + std::to_string(settings_.datasets.size()) +
                      " were given",
                  "name one, or leave out --formats");
    }
  }

  Settings settings_;
  std::optional<std::string> workers_;
  std::optional<std::string> decode_;
  bool exact_ = false;
};

}  // namespace

std::unique_ptr<Command> make_bench_command() { return std::make_unique<BenchCommand>(); }

}  // namespace shardmill::tools
