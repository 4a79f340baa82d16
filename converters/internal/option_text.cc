// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/option_text.h"

#include <shardmill/formats/error.h>

#include <algorithm>

#include "converters/internal/wire.h"

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSources = "SOURCE";

struct Entry {
  const char* name;
  std::string (*get)(const ConvertOptions&);
  void (*set)(ConvertOptions&, const std::string&);
};

std::string absolute(const std::string& spec) {
  return spec == "-" ? spec : fs::absolute(spec).lexically_normal().string();
}

std::string sources_text(const ConvertOptions& options) {
  if (options.sources.empty()) return {};
  std::vector<std::string> specs;
  for (const std::string& spec : options.sources) specs.push_back(absolute(spec));
  return pack_texts(specs);
}

std::string size_text(const std::optional<ImageSize>& size) {
  return size ? std::to_string(size->width) + "x" + std::to_string(size->height) : std::string();
}

std::optional<ImageSize> size_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const std::size_t cross = text.find('x');
  return ImageSize{static_cast<std::uint32_t>(std::stoul(text.substr(0, cross))),
                   static_cast<std::uint32_t>(std::stoul(text.substr(cross + 1)))};
}

const std::vector<Entry>& entries() {
  using Options = ConvertOptions;
  static const std::vector<Entry> kEntries = {
      {kSources, sources_text,
       [](Options& o, const std::string& text) { o.sources = unpack_texts(text); }},
      {"--to", [](const Options& o) { return o.format; },
       [](Options& o, const std::string& text) { o.format = text; }},
      {"--shuffle", [](const Options& o) { return o.shuffle ? std::to_string(*o.shuffle) : ""; },
       [](Options& o, const std::string& text) {
         o.shuffle.reset();
         if (!text.empty()) o.shuffle = std::stoull(text);
       }},
      {"--limit", [](const Options& o) { return std::to_string(o.limit); },
       [](Options& o, const std::string& text) { o.limit = std::stoull(text); }},
      {"--shard-size", [](const Options& o) { return std::to_string(o.shard_bytes); },
       [](Options& o, const std::string& text) { o.shard_bytes = std::stoull(text); }},
      {"--shard-count", [](const Options& o) { return std::to_string(o.shard_samples); },
       [](Options& o, const std::string& text) { o.shard_samples = std::stoull(text); }},
      {"--name", [](const Options& o) { return o.name; },
       [](Options& o, const std::string& text) { o.name = text; }},
      {"--image-format",
       [](const Options& o) {
         return std::string(o.image_output == ImageOutput::kRaw ? "raw" : "keep");
       },
       [](Options& o, const std::string& text) {
         o.image_output = text == "raw" ? ImageOutput::kRaw : ImageOutput::kKeep;
       }},
      {"--image-size", [](const Options& o) { return size_text(o.image_size); },
       [](Options& o, const std::string& text) { o.image_size = size_of(text); }},
      {"--hdf5-layout", [](const Options& o) { return std::string(o.hdf5_vlen ? "vlen" : "flat"); },
       [](Options& o, const std::string& text) { o.hdf5_vlen = text == "vlen"; }},
  };
  return kEntries;
}

}  // namespace

std::string pack_texts(const std::vector<std::string>& texts) {
  WireWriter out;
  out.number(texts.size());
  for (const std::string& text : texts) out.text(text);
  return out.take();
}

std::vector<std::string> unpack_texts(const std::string& packed) {
  if (packed.empty()) return {};
  WireReader in(packed);
  std::vector<std::string> texts;
  for (std::uint64_t n = in.number(); n > 0; --n) texts.push_back(in.text());
  return texts;
}

OptionTexts option_texts(const ConvertOptions& options) {
  OptionTexts texts;
  for (const Entry& entry : entries()) texts[entry.name] = entry.get(options);
  return texts;
}

void apply_option_texts(const OptionTexts& texts, ConvertOptions& options) {
  for (const auto& [name, text] : texts) {
    const auto at = std::find_if(entries().begin(), entries().end(),
                                 [&](const Entry& entry) { return entry.name == name; });
    if (at == entries().end()) {
      throw Error(ErrorCode::kDataLoss, {}, {}, "the plan has an unknown option " + escape(name),
                  "it was made by another version: convert again with --force");
    }
    at->set(options, text);
  }
}

void adopt_options(const OptionTexts& planned, const std::string& path, ConvertOptions& options) {
  const OptionTexts mine = option_texts(options);
  const OptionTexts defaults = option_texts({});
  for (const auto& [name, text] : mine) {
    const auto at = planned.find(name);
    const bool given = text != defaults.at(name) ||
                       std::count(options.given.begin(), options.given.end(), name) > 0;
    if (!given || (at != planned.end() && at->second == text)) continue;
    const bool sources = name == kSources;
    throw Error(
        ErrorCode::kInvalidArgument, sources ? "the sources" : name, {},
        (sources ? "they are not those" : "is not the one") + std::string(" of ") + path +
            (sources || at == planned.end() ? "" : ", which has \"" + escape(at->second) + "\""),
        "resume with the same options (they may be left out), or begin again with --force");
  }
  apply_option_texts(planned, options);
}

std::vector<std::string> option_words(const OptionTexts& texts) {
  const OptionTexts defaults = option_texts({});
  std::vector<std::string> words;
  for (const auto& [name, text] : texts) {
    const auto at = defaults.find(name);
    if (name == kSources || (at != defaults.end() && at->second == text)) continue;
    words.push_back(name);
    words.push_back(text);
  }
  return words;
}

}  // namespace shardmill::internal
