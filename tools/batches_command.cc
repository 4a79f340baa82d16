// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <shardmill/formats/dataset.h>
#include <shardmill/formats/digest.h>
#include <shardmill/formats/error.h>
#include <shardmill/loader/loader.h>
#include <shardmill/loader/system/ranks.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/bench/settings.h"
#include "tools/command.h"
#include "tools/contact_sheet.h"

namespace shardmill::tools {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kSheetImages = 100;
constexpr std::uint32_t kDefaultImage = 224;

// A batch's digest: everything that training sees of it.
std::string digest_of(const Batch& batch) {
  std::string text;
  const auto add = [&](Bytes bytes) { text += hash_bytes(bytes).hex() + "\n"; };
  add(std::as_bytes(batch.samples()));
  add(std::as_bytes(batch.valid()));
  for (const BatchOutput& output : batch.outputs()) {
    text += output.name + "\n";
    add(output.data);
    add(std::as_bytes(output.offsets));
    add(std::as_bytes(output.present));
  }
  return hash_bytes(as_bytes(text)).hex();
}

// How often each sample was seen.
class Coverage {
 public:
  void add(const Batch& batch) {
    for (std::size_t row = 0; row < batch.size(); ++row) {
      if (batch.valid()[row] == 0) {
        ++padding_;
      } else if (++visits_[batch.samples()[row]] > 1) {
        ++repeated_;
      }
    }
  }
  Json to_json(std::uint64_t samples) const {
    return {{"unique", visits_.size()},
            {"repeated", repeated_},
            {"missing", samples - visits_.size()},
            {"padding", padding_}};
  }

 private:
  std::map<std::uint64_t, std::uint64_t> visits_;
  std::uint64_t repeated_ = 0;
  std::uint64_t padding_ = 0;
};

class BatchesCommand : public Command {
 public:
  std::string summary() const override {
    return "Run the loader and show which samples training gets, batch by batch";
  }
  std::string example() const override {
    return "shardmill batches photos/ --shuffle full --count 2 --keys --png sheet.png --decode";
  }

  void define(CLI::App& app) override {
    app.add_option("dataset", dataset_, "The dataset to load")->type_name("DATASET")->required();
    app.add_option("--epoch", epoch_, "Epoch to show")->type_name("N")->capture_default_str();
    app.add_option("--seed", seed_, "Seed of the order")->type_name("N")->capture_default_str();
    app.add_option("--batch-size", options_.batch_size, "Samples in a batch")
        ->type_name("N")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    add_shuffle_option(app, options_.shuffle);
    app.add_option("--workers,--num-workers", workers_, "Worker processes; default: auto")
        ->type_name("N");
    app.add_option("--rank", options_.rank, "This rank; default: from the environment")
        ->type_name("R");
    app.add_option("--world-size", options_.world_size, "Ranks; default: from the environment")
        ->type_name("N");
    app.add_flag("--all-ranks", all_ranks_, "Show every rank's batches, one rank after the other");
    add_uneven_option(app, options_.uneven);
    app.add_flag("--drop-last", options_.drop_last, "Drop a last batch that is not full");
    app.add_option("--from", from_, "First batch to show, counted from 0")
        ->type_name("B")
        ->capture_default_str();
    app.add_option("--count", count_, "Batches to show; default: to the epoch's end")
        ->type_name("K");
    app.add_option("--decode", decode_, "Decode images, to this size (default 224)")
        ->type_name("SIZE")
        ->expected(0, 1);
    app.add_flag("--allow-truncated", options_.allow_truncated,
                 "Show images that were cut off as far as they go");
    app.add_flag("--ignore-orientation", ignore_orientation_,
                 "Show images as they are stored, whatever EXIF says");
    app.add_option("--max-pixels", options_.max_pixels, "Of one image; larger ones are errors")
        ->capture_default_str();
    app.add_flag("--augment", augment_, "Decode a random resized crop, mirrored half of the time");
    app.add_flag("--keys", keys_, "List the samples' keys");
    app.add_flag("--digest", digest_, "Show a digest of each batch's bytes");
    app.add_option("--png", png_, "Write the first images as one picture")->type_name("FILE");
    add_kind_option(app, kind_);
    decode_option_ = app.get_option("--decode");
  }

  int run(Console& console) override {
    prepare();
    const int world = options_.world_size;
    const int begin = all_ranks_ ? 0 : options_.rank;
    const int end = all_ranks_ ? world : options_.rank + 1;
    Json batches = Json::array();
    std::uint64_t samples = 0;
    double quality = 0;
    for (int rank = begin; rank < end; ++rank) {
      options_.rank = rank;
      Loader loader(dataset_, options_);
      samples = loader.dataset().size();
      show(loader, console, batches);
      quality = loader.shuffle_quality();
    }
    const Json coverage = coverage_.to_json(samples);
    if (!png_.empty()) write_sheet(console);
    if (console.json) {
      console.print_json({{"batches", std::move(batches)},
                          {"coverage", coverage},
                          {"world_size", world},
                          {"shuffle_quality", quality}});
    } else {
      console.print(fmt::format(
          "samples {}: {} shown once, {} repeats, {} not shown, {} padding", samples,
          coverage["unique"].get<std::uint64_t>(), coverage["repeated"].get<std::uint64_t>(),
          coverage["missing"].get<std::uint64_t>(), coverage["padding"].get<std::uint64_t>()));
    }
    return 0;
  }

 private:
  void prepare() {
    dataset_ = with_kind(dataset_, kind_);
    options_.seed = seed_;
    options_.num_workers = workers_ == "auto" ? kAuto : parse_worker_count();
    if (options_.world_size == kAuto && options_.rank == kAuto) {
      const RankInfo found = detect_rank();
      options_.rank = found.rank;
      options_.world_size = found.world_size;
    } else if (options_.world_size == kAuto) {
      throw Error(ErrorCode::kInvalidArgument, "--world-size", {}, "is missing beside --rank",
                  "give it");
    } else if (options_.rank == kAuto) {
      if (!all_ranks_) {
        throw Error(ErrorCode::kInvalidArgument, "--rank", {}, "is missing beside --world-size",
                    "give it, or --all-ranks");
      }
      options_.rank = 0;
    }
    options_.apply_orientation = !ignore_orientation_;
    decoded_ = decode_option_->count() > 0 || augment_ || !png_.empty();
    options_.outputs = decoded_ ? image_outputs() : stored_outputs();
  }

  int parse_worker_count() const {
    const std::vector<int> numbers = bench::parse_workers(workers_);
    if (numbers.size() == 1) return numbers.front();
    throw Error(ErrorCode::kInvalidArgument, "--workers", {}, "\"" + workers_ + "\" is no number",
                "give one, or auto");
  }

  // The stored bytes of each field that the first sample has; others may lack some of them.
  std::vector<Output> stored_outputs() const {
    const Dataset dataset = Dataset::open(dataset_);
    std::vector<Output> outputs;
    if (dataset.size() == 0) return outputs;
    DatasetReader reader(dataset);
    SampleView sample;
    reader.read(0, sample);
    for (const FieldView& field : sample.fields) {
      const std::string name(field.name);
      outputs.push_back(optional_output(bytes_output(name, name)));
    }
    return outputs;
  }

  std::vector<Output> image_outputs() {
    std::string text;
    for (const std::string& word : decode_) text += word;
    const bench::Decode size = text.empty()
                                   ? bench::Decode{.width = kDefaultImage, .height = kDefaultImage}
                                   : bench::parse_decode(text);
    if (size.none) {
      throw Error(ErrorCode::kInvalidArgument, "--decode", {}, "none leaves no images to show",
                  "leave --decode and --png out");
    }
    width_ = size.width;
    height_ = size.height;
    return {augment_ ? random_crop_output("image", size.width, size.height)
                     : image_output("image", size.width, size.height),
            optional_output(class_output())};
  }

  void show(Loader& loader, Console& console, Json& batches) {
    const auto world = static_cast<std::uint64_t>(loader.options().world_size);
    const std::uint64_t all = loader.batches_per_epoch();
    if (from_ >= all) return;
    // The state of a run that has had the batches before.
    loader.start_epoch(epoch_);
    if (from_ > 0) {
      Json state = Json::parse(loader.state());
      state["cursor"] = from_ * loader.options().batch_size * world;
      loader.resume(state.dump());
    }
    Batch batch;
    for (std::uint64_t shown = 0; shown < count_ && loader.next(batch); ++shown) {
      if (console.observer().stop.stop_requested()) throw Interrupted();
      coverage_.add(batch);
      collect_images(batch);
      describe(loader, batch, console, batches);
    }
  }

  void describe(const Loader& loader, const Batch& batch, Console& console, Json& batches) const {
    const std::string digest = console.json || digest_ ? digest_of(batch) : std::string();
    if (console.json) {
      Json entry = {{"index", batch.index()}, {"rank", loader.options().rank}};
      entry["samples"] = std::vector<std::uint64_t>(batch.samples().begin(), batch.samples().end());
      entry["valid"] = std::count(batch.valid().begin(), batch.valid().end(), 1);
      entry["digest"] = digest;
      entry["keys"] = Json::array();
      for (const std::string_view key : batch.keys()) entry["keys"].push_back(escape(key));
      batches.push_back(std::move(entry));
      return;
    }
    std::string line = fmt::format("batch {}", batch.index());
    if (loader.options().world_size > 1) line += fmt::format(" rank {}", loader.options().rank);
    line += fmt::format(": {} samples", batch.size());
    const auto padding = std::count(batch.valid().begin(), batch.valid().end(), 0);
    if (padding > 0) line += fmt::format(", {} of them padding", padding);
    if (digest_) line += " " + digest;
    console.print(line);
    if (!keys_) return;
    const std::vector<std::string_view> keys = batch.keys();
    for (std::size_t row = 0; row < keys.size(); ++row) {
      console.print(fmt::format("  {}\t{}", batch.samples()[row], escape(keys[row])));
    }
  }

  void collect_images(const Batch& batch) {
    if (png_.empty()) return;
    const BatchOutput& images = batch["image"];
    const std::size_t bytes = images.row.bytes();
    for (std::size_t row = 0; row < batch.size() && images_.size() < kSheetImages; ++row) {
      const auto image = images.data.subspan(row * bytes, bytes);
      images_.emplace_back(image.begin(), image.end());
    }
  }

  void write_sheet(Console& console) const {
    write_contact_sheet(png_, images_, width_, height_);
    console.note(fmt::format("{}: {} images", png_, images_.size()));
  }

  std::string dataset_;
  std::string kind_;
  LoaderOptions options_ = [] {
    LoaderOptions options;
    options.batch_size = 64;
    return options;
  }();
  std::uint64_t epoch_ = 0;
  std::uint64_t seed_ = 0;
  std::string workers_ = "auto";
  bool all_ranks_ = false;
  std::uint64_t from_ = 0;
  std::uint64_t count_ = ~std::uint64_t{0};
  CLI::Option* decode_option_ = nullptr;
  std::vector<std::string> decode_;
  bool decoded_ = false;
  bool augment_ = false;
  bool ignore_orientation_ = false;
  bool keys_ = false;
  bool digest_ = false;
  std::string png_;

  std::uint32_t width_ = 0;
  std::uint32_t height_ = 0;
  std::vector<std::vector<std::byte>> images_;
  Coverage coverage_;
};

}  // namespace

std::unique_ptr<Command> make_batches_command() { return std::make_unique<BatchesCommand>(); }

}  // namespace shardmill::tools
