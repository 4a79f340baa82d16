// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <shardmill/converters/convert.h>
#include <shardmill/formats/error.h>
#include <shardmill/loader/system/ranks.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "tools/command.h"
#include "tools/convert_values.h"

namespace shardmill::tools {

namespace {

using Json = nlohmann::ordered_json;

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
        ->expected(1, -1);
    app.add_option("--to", options_.format, "Format to write: tar, lmdb, hdf5, folder")
        ->type_name("FORMAT");
    app.add_option("--shuffle", options_.shuffle, "Shuffle all samples; without it source order")
        ->type_name("SEED");
    CLI::Option* const size = add_size_option(app, "--shard-size", options_.shard_bytes,
                                              "Source bytes a shard, default 1G")
                                  ->type_name("SIZE");
    app.add_option("--shard-count", options_.shard_samples, "Samples a shard, exactly")
        ->type_name("N")
        ->excludes(size)
        ->check(CLI::PositiveNumber);
    app.add_option("--name", options_.name, "Shards are called NAME-000000.tar ...")
        ->type_name("NAME")
        ->capture_default_str();
    app.add_option("--limit", options_.limit, "Take only N samples, chosen by the seed")
        ->type_name("N");
    app.add_option_function<std::string>(
           "--image-size", [this](const std::string& text) { parse_image_size(text, options_); },
           "Shorter side, never enlarged; or exact size, centre crop")
        ->type_name("N|WxH");
    app.add_option("--image-format", image_format_,
                   "keep: stored bytes; raw: decoded arrays; else encoded again")
        ->type_name("keep|jpeg|webp|png|raw")
        ->check(CLI::IsMember({"keep", "jpeg", "webp", "png", "raw"}));
    app.add_option("--quality", options_.quality, "Of JPEG and WebP, 1 to 100")
        ->type_name("Q")
        ->capture_default_str();
    app.add_option("--check", check_, "decode: every image must decode")
        ->type_name("decode")
        ->check(CLI::IsMember({"decode"}));
    app.add_option("--hdf5-layout", hdf5_layout_,
                   "Byte strings in HDF5: flat (data and offsets) or vlen (rows)")
        ->type_name("flat|vlen")
        ->check(CLI::IsMember({"flat", "vlen"}));
    app.add_option("--jobs", options_.jobs, "Processes; default: usable CPUs")
        ->type_name("N")
        ->check(CLI::PositiveNumber);
    app.add_flag("--dry-run", options_.dry_run, "Scan, plan and forecast; write nothing");
    add_kind_option(app, kind_);
    define_sources(app);
    define_safety(app);
    define_ranks(app);
    app_ = &app;
  }

  int run(Console& console) override {
    take_paths();
    take_ranks(console);
    options_.hdf5_vlen = hdf5_layout_ == "vlen";
    options_.image_output = image_format_ == "raw"    ? ImageOutput::kRaw
                            : image_format_ == "jpeg" ? ImageOutput::kJpeg
                            : image_format_ == "webp" ? ImageOutput::kWebp
                            : image_format_ == "png"  ? ImageOutput::kPng
                                                      : ImageOutput::kKeep;
    options_.check_decode = check_ == "decode";
    if (on_error_ == "skip") options_.on_error = OnError::kSkip;
    for (const CLI::Option* option : app_->get_options()) {
      if (option->count() > 0 && !option->get_lnames().empty()) {
        options_.given.push_back("--" + option->get_lnames().front());
      }
    }
    const ConvertReport report = convert(options_, console.observer());
    if (console.json) {
      console.print_json(to_json(report));
    } else {
      print(report, console);
    }
    for (const std::string& pattern : report.shard_patterns) console.note(escape(pattern));
    if (options_.plan_only) {
      console.note("next: shardmill convert " + shell_word(options_.destination.string()) +
                   " --resume");
    } else if (report.complete) {
      console.note("next: " + next_command());
    }
    return 0;
  }

 private:
  void define_sources(CLI::App& app) {
    app.add_option("--root", options_.list_root, "Lists: where the files are; default: beside it")
        ->type_name("DIR");
    add_pairs(app, "--files", options_.list_files, "Lists: columns that hold paths",
              "FIELD=COLUMN,...");
    app.add_option("--class", options_.list_class,
                   "Lists: column that becomes cls; text is numbered")
        ->type_name("COLUMN");
    app.add_option("--dtype", options_.dtype, "Sources are raw token files of this type")
        ->type_name("TYPE");
    app.add_option("--seq-len", options_.seq_len, "Length of their rows")
        ->type_name("L")
        ->check(CLI::PositiveNumber);
    app.add_option_function<std::vector<std::string>>(
           "--pair",
           [this](const std::vector<std::string>& texts) {
             for (const std::string& text : texts) {
               options_.pairs.push_back(parse_pair("--pair", text));
             }
           },
           "Adds a file per sample, for example seg.png=../masks/{stem}.png")
        ->type_name("FIELD=TEMPLATE")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    app.add_flag("--pair-optional", options_.pair_optional, "Samples without that file are fine");
    app.add_option("--pack", options_.pack, "Puts tokens of samples behind each other, rows of L")
        ->type_name("L")
        ->check(CLI::PositiveNumber);
    app.add_option("--eos", options_.eos, "With --pack: token behind each sample")->type_name("ID");
    app.add_option("--fields", options_.fields, "Only these fields")
        ->type_name("A,B")
        ->delimiter(',');
    add_pairs(app, "--rename", options_.rename, "Names fields anew: old=new", "A=B,...");
    app.add_option("--classes", options_.classes, "Class order: a list of names, or a DATASET")
        ->type_name("FILE|DATASET");
    app.add_option_function<std::vector<std::string>>(
           "--split",
           [this](const std::vector<std::string>& texts) {
             for (const std::string& text : texts) {
               const auto [name, share] = parse_pair("--split", text);
               double value = 0;
               const char* const end = share.data() + share.size();
               if (std::from_chars(share.data(), end, value).ptr != end) {
                 throw CLI::ValidationError("--split", "\"" + share + "\" is no number");
               }
               options_.split.emplace_back(name, value);
             }
           },
           "Datasets in DEST, by a hash of keys: train=0.9,val=0.1")
        ->type_name("NAME=SHARE,...")
        ->delimiter(',');
  }

  void define_safety(CLI::App& app) {
    app.add_option("--on-error", on_error_, "What a sample does that cannot be converted")
        ->type_name("fail|skip")
        ->check(CLI::IsMember({"fail", "skip"}));
    app.add_option_function<std::string>(
           "--max-errors",
           [this](const std::string& text) {
             options_.max_errors = parse_amount("--max-errors", text, false);
           },
           "With skip: fail after all if there are more")
        ->type_name("N|P%");
    app.add_option("--error-log", options_.error_log, "JSON lines: one a skipped sample")
        ->type_name("FILE");
    app.add_flag("--plan-only", options_.plan_only,
                 "Scan, and leave the plan in DEST for --resume");
    app.add_flag("--resume", options_.resume,
                 "Go on with what DEST holds; options come from its plan");
    app.add_option_function<std::string>(
           "--reserve",
           [this](const std::string& text) {
             options_.reserve = parse_amount("--reserve", text, true);
           },
           "Stop, resumable, before free space falls below; default 1%")
        ->type_name("SIZE|P%");
    app.add_flag("--force", options_.force, "Replace DEST if it holds a shardmill dataset");
  }

  void define_ranks(CLI::App& app) {
    app.add_option("--rank", rank_, "Which of several processes this is; default: environment")
        ->type_name("R")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--world-size", world_size_, "How many there are; 1: do not look")
        ->type_name("N")
        ->check(CLI::PositiveNumber);
    app.add_flag("--array", array_, "Ranks are the tasks of a Slurm job array");
  }

  void take_paths() {
    options_.destination = paths_.back();
    options_.sources.clear();
    for (auto path = paths_.begin(); path + 1 != paths_.end(); ++path) {
      options_.sources.push_back(with_kind(*path, kind_));
    }
    if (options_.resume) return;
    if (options_.sources.empty()) {
      throw Error(ErrorCode::kInvalidArgument, {}, {}, "SOURCE and DEST are needed",
                  "see shardmill convert --help");
    }
    if (options_.format.empty()) {
      throw Error(ErrorCode::kInvalidArgument, {}, {}, "--to is required",
                  "see shardmill convert --help");
    }
  }

  // Says as the first thing which rank this is.
  void take_ranks(Console& console) {
    const bool stream = std::count(options_.sources.begin(), options_.sources.end(), "-") > 0;
    RankInfo found;
    if (rank_ || world_size_) {
      found = {rank_.value_or(0), world_size_.value_or(1), "--rank, --world-size"};
      if (world_size_.value_or(0) != 1 && (!rank_ || !world_size_)) {
        throw Error(ErrorCode::kInvalidArgument, "--rank", {},
                    "needs --world-size, and it needs this", "give both");
      }
    } else if (array_) {
      found = array_rank();
    } else if (!stream) {
      found = detect_rank();
    }
    options_.rank = found.rank;
    options_.world_size = found.world_size;
    if (!found.source.empty() && found.world_size > 1) {
      console.note(fmt::format("rank {} of {} ({})", found.rank, found.world_size, found.source));
    }
  }

  void print(const ConvertReport& report, Console& console) const {
    const char* const done = options_.dry_run || options_.plan_only ? "would write" : "wrote";
    console.print(fmt::format(
        "{} {} samples, {} shards: {} of payloads -> {}{} of {} in {:.1f} s", done,
        human_count(report.samples), human_count(report.shards), human_bytes(report.source_bytes),
        options_.dry_run || options_.plan_only ? "about " : "", human_bytes(report.bytes),
        options_.format.empty() ? "shards" : options_.format, report.seconds));
    if (report.bytes_plus_minus > 0) {
      console.note("measured on some images: ± " + human_bytes(report.bytes_plus_minus));
    }
    if (report.bytes > 0 && report.source_bytes > 0) {
      console.note(fmt::format(
          "the result takes {:.1f} % of the source's {}",
          100.0 * static_cast<double>(report.bytes) / static_cast<double>(report.source_bytes),
          human_bytes(report.source_bytes)));
    }
    if (report.resumed_shards > 0) {
      console.note(human_count(report.resumed_shards) + " shards were there already");
    }
    if (report.skipped_count > 0) {
      console.note(human_count(report.skipped_count) + " samples were skipped, the first: " +
                   sample_place(report.skipped.front().key, report.skipped.front().field) + ": " +
                   report.skipped.front().cause);
    }
    if (!report.content_digest.empty()) console.print("content digest " + report.content_digest);
    if (report.total) {
      console.print(fmt::format("all ranks: {} samples, {} shards, {}, content digest {}",
                                human_count(report.total->samples),
                                human_count(report.total->shards), human_bytes(report.total->bytes),
                                report.total->content_digest));
    }
  }

  Json to_json(const ConvertReport& report) const {
    Json json = {{"samples", report.samples},
                 {"shards", report.shards},
                 {"bytes", report.bytes},
                 {"source_bytes", report.source_bytes},
                 {"skipped_count", report.skipped_count},
                 {"skipped", Json::array()},
                 {"seconds", report.seconds},
                 {"content_digest", report.content_digest},
                 {"shard_patterns", Json::array()},
                 {"warnings", report.warnings}};
    for (const SkippedSample& sample : report.skipped) {
      json["skipped"].push_back({{"path", sample.path},
                                 {"key", sample.key},
                                 {"field", sample.field},
                                 {"cause", sample.cause}});
    }
    for (const std::string& pattern : report.shard_patterns) {
      json["shard_patterns"].push_back(escape(pattern));
    }
    if (options_.dry_run) json["bytes_plus_minus"] = report.bytes_plus_minus;
    if (report.shard_patterns.size() == 1) json["shard_pattern"] = json["shard_patterns"][0];
    if (options_.world_size > 1) json["rank"] = options_.rank;
    if (report.total) {
      json["total"] = {{"samples", report.total->samples},
                       {"shards", report.total->shards},
                       {"bytes", report.total->bytes},
                       {"source_bytes", report.total->source_bytes},
                       {"skipped_count", report.total->skipped_count},
                       {"content_digest", report.total->content_digest}};
    }
    return json;
  }

  // Lists and arrays are sources, but no datasets.
  static bool is_dataset(const std::string& source) {
    for (const char* suffix : {".csv", ".tsv", ".jsonl", ".ndjson", ".npy", "-ubyte"}) {
      if (source.ends_with(suffix)) return false;
    }
    return true;
  }

  // Proves the conversion lossless where it should be; else shows what was made.
  std::string next_command() const {
    const bool same = options_.sources.size() == 1 && options_.sources[0] != "-" &&
                      options_.limit == 0 && options_.image_output == ImageOutput::kKeep &&
                      !options_.image_size && options_.image_shorter == 0 &&
                      options_.fields.empty() && options_.rename.empty() && options_.pack == 0 &&
                      options_.pairs.empty() && options_.seq_len == 0 && options_.split.empty() &&
                      options_.classes.empty() && options_.on_error == OnError::kFail &&
                      is_dataset(options_.sources[0]);
    const std::string dest = shell_word(options_.destination.string());
    return same ? "shardmill verify " + shell_word(options_.sources[0]) + " " + dest
                : "shardmill inspect " + dest;
  }

  CLI::App* app_ = nullptr;
  std::vector<std::string> paths_;
  std::optional<int> rank_;
  std::optional<int> world_size_;
  bool array_ = false;
  std::string kind_;
  std::string image_format_ = "keep";
  std::string check_;
  std::string hdf5_layout_ = "flat";
  std::string on_error_ = "fail";
  ConvertOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_convert_command() { return std::make_unique<ConvertCommand>(); }

}  // namespace shardmill::tools
