// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <shardmill/converters/convert.h>
#include <shardmill/formats/error.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "tools/command.h"

namespace shardmill::tools {

namespace {

using Json = nlohmann::ordered_json;

// Parses `WxH`.
ImageSize parse_image_size(const std::string& text) {
  ImageSize size;
  const char* end = text.data() + text.size();
  const auto width = std::from_chars(text.data(), end, size.width);
  const bool cross = width.ec == std::errc() && width.ptr != end && *width.ptr == 'x';
  const auto height = std::from_chars(cross ? width.ptr + 1 : end, end, size.height);
  if (!cross || height.ec != std::errc() || height.ptr != end) {
    throw CLI::ValidationError("--image-size", "\"" + text + "\" is not WxH, for example 224x224");
  }
  return size;
}

class ConvertCommand : public Command {
 public:
  std::string summary() const override {
    return "Write a folder of class directories, or any dataset, as shards with a manifest";
  }
  std::string example() const override {
    return "shardmill convert photos/ out/ --to tar --shuffle 1";
  }

  void define(CLI::App& app) override {
    app.add_option("paths", paths_,
                   "Sources (merged; - is a tar on stdin), last the directory to write")
        ->type_name("SOURCE... DEST")
        ->required()
        ->expected(2, -1);
    app.add_option("--to", options_.format, "Format to write: tar, lmdb, hdf5, folder")
        ->type_name("FORMAT")
        ->required();
    app.add_option("--shuffle", options_.shuffle, "Shuffle all samples; without it source order")
        ->type_name("SEED");
    add_size_option(app, "--shard-size", options_.shard_bytes, "Source bytes a shard, default 1G")
        ->type_name("SIZE");
    app.add_option("--shard-count", options_.shard_samples, "Samples a shard, exactly")
        ->type_name("N")
        ->check(CLI::PositiveNumber);
    app.add_option("--name", options_.name, "Shards are called NAME-000000.tar ...")
        ->type_name("NAME")
        ->capture_default_str();
    app.add_option("--limit", options_.limit, "Take only N samples, chosen by the seed")
        ->type_name("N");
    app.add_option_function<std::string>(
           "--image-size",
           [this](const std::string& text) { options_.image_size = parse_image_size(text); },
           "Size of decoded images: covers it, centre crop")
        ->type_name("WxH");
    app.add_option("--image-format", image_format_, "keep: bytes as stored; raw: decoded arrays")
        ->type_name("keep|raw")
        ->check(CLI::IsMember({"keep", "raw"}));
    app.add_option("--hdf5-layout", hdf5_layout_,
                   "Byte strings in HDF5: flat (data and offsets) or vlen (rows)")
        ->type_name("flat|vlen")
        ->check(CLI::IsMember({"flat", "vlen"}));
    app.add_option("--jobs", options_.jobs, "Processes; default: usable CPUs")
        ->type_name("N")
        ->check(CLI::PositiveNumber);
    app.add_option("--on-error", on_error_, "What a sample that cannot be converted does: fail")
        ->type_name("fail")
        ->check(CLI::IsMember({"fail"}));
    app.add_flag("--dry-run", options_.dry_run, "Scan and plan, write nothing");
    add_kind_option(app, kind_);
    app.add_flag("--force", options_.force, "Replace DEST if it holds a shardmill dataset");
  }

  int run(Console& console) override {
    options_.destination = paths_.back();
    options_.sources.clear();
    for (auto path = paths_.begin(); path + 1 != paths_.end(); ++path) {
      options_.sources.push_back(with_kind(*path, kind_));
    }
    options_.hdf5_vlen = hdf5_layout_ == "vlen";
    if (image_format_ == "raw") options_.image_output = ImageOutput::kRaw;
    const ConvertReport report = convert(options_, console.observer());
    if (console.json) {
      console.print_json(to_json(report));
    } else {
      console.print(fmt::format(
          "{} {} samples, {} shards: {} of payloads -> {} of {} in {:.1f} s",
          options_.dry_run ? "would write" : "wrote", human_count(report.samples),
          human_count(report.shards), human_bytes(report.source_bytes),
          options_.dry_run ? "files" : human_bytes(report.bytes), options_.format, report.seconds));
      if (!report.content_digest.empty()) {
        console.print("content digest " + report.content_digest);
      }
    }
    console.note(escape(report.shard_pattern));
    if (!options_.dry_run) console.note("next: " + next_command());
    return 0;
  }

 private:
  static Json to_json(const ConvertReport& report) {
    return {{"samples", report.samples},
            {"shards", report.shards},
            {"bytes", report.bytes},
            {"source_bytes", report.source_bytes},
            {"skipped_count", 0},
            {"skipped", Json::array()},
            {"seconds", report.seconds},
            {"content_digest", report.content_digest},
            {"shard_pattern", escape(report.shard_pattern)},
            {"warnings", report.warnings}};
  }

  // Proves the conversion lossless where it should be; else shows what was made.
  std::string next_command() const {
    const bool same = options_.sources.size() == 1 && options_.sources[0] != "-" &&
                      options_.limit == 0 && image_format_ == "keep";
    const std::string dest = shell_word(options_.destination.string());
    return same ? "shardmill verify " + shell_word(options_.sources[0]) + " " + dest
                : "shardmill inspect " + dest;
  }

  std::vector<std::string> paths_;
  std::string kind_;
  std::string image_format_ = "keep";
  std::string hdf5_layout_ = "flat";
  std::string on_error_ = "fail";
  ConvertOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_convert_command() { return std::make_unique<ConvertCommand>(); }

}  // namespace shardmill::tools
