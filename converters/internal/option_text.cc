// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/option_text.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <cstdio>

#include "converters/internal/wire.h"

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSources = "SOURCE";

struct Entry {
  const char* name;
  std::string (*get)(const ConvertOptions&);
  void (*set)(ConvertOptions&, const std::string&);
  /// As words of a command line; null: the name and the text.
  std::vector<std::string> (*words)(const ConvertOptions&) = nullptr;
};

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::string pack_pairs(const Pairs& pairs) {
  if (pairs.empty()) return {};
  std::vector<std::string> texts;
  for (const auto& [first, second] : pairs) {
    texts.push_back(first);
    texts.push_back(second);
  }
  return pack_texts(texts);
}

Pairs unpack_pairs(const std::string& text) {
  const std::vector<std::string> texts = unpack_texts(text);
  Pairs pairs;
  for (std::size_t i = 0; i + 1 < texts.size(); i += 2) pairs.emplace_back(texts[i], texts[i + 1]);
  return pairs;
}

std::vector<std::string> pair_words(const char* name, const Pairs& pairs) {
  std::vector<std::string> words;
  for (const auto& [first, second] : pairs) {
    words.push_back(name);
    words.push_back(first + "=" + second);
  }
  return words;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// Shares as they were typed, so that they come back as the same numbers.
std::string split_text(const ConvertOptions& options) {
  std::string text;
  for (const auto& [name, share] : options.split) {
    char number[32];
    std::snprintf(number, sizeof number, "%.17g", share);
    text += (text.empty() ? "" : ",") + name + "=" + number;
  }
  return text;
}

std::string absolute(const std::string& spec) {
  return spec == "-" ? spec : fs::absolute(spec).lexically_normal().string();
}

std::string sources_text(const ConvertOptions& options) {
  if (options.sources.empty()) return {};
  std::vector<std::string> specs;
  for (const std::string& spec : options.sources) specs.push_back(absolute(spec));
  return pack_texts(specs);
}

std::string size_text(const ConvertOptions& options) {
  if (options.image_shorter > 0) return std::to_string(options.image_shorter);
  const auto& size = options.image_size;
  return size ? std::to_string(size->width) + "x" + std::to_string(size->height) : std::string();
}

void set_size(ConvertOptions& options, const std::string& text) {
  options.image_size.reset();
  options.image_shorter = 0;
  if (text.empty()) return;
  const std::size_t cross = text.find('x');
  const auto first = static_cast<std::uint32_t>(std::stoul(text));
  if (cross == std::string::npos) {
    options.image_shorter = first;
  } else {
    options.image_size =
        ImageSize{first, static_cast<std::uint32_t>(std::stoul(text.substr(cross + 1)))};
  }
}

constexpr std::pair<ImageOutput, const char*> kImageWords[] = {{ImageOutput::kKeep, "keep"},
                                                               {ImageOutput::kRaw, "raw"},
                                                               {ImageOutput::kJpeg, "jpeg"},
                                                               {ImageOutput::kWebp, "webp"},
                                                               {ImageOutput::kPng, "png"}};

const char* image_word(ImageOutput output) {
  for (const auto& [known, word] : kImageWords) {
    if (known == output) return word;
  }
  return "keep";
}

ImageOutput image_output_of(const std::string& text) {
  for (const auto& [known, word] : kImageWords) {
    if (text == word) return known;
  }
  return ImageOutput::kKeep;
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
      {"--image-format", [](const Options& o) { return std::string(image_word(o.image_output)); },
       [](Options& o, const std::string& text) { o.image_output = image_output_of(text); }},
      {"--image-size", size_text, set_size},
      {"--quality", [](const Options& o) { return std::to_string(o.quality); },
       [](Options& o, const std::string& text) { o.quality = std::stoi(text); }},
      {"--check", [](const Options& o) { return std::string(o.check_decode ? "decode" : ""); },
       [](Options& o, const std::string& text) { o.check_decode = text == "decode"; }},
      {"--root",
       [](const Options& o) {
         return o.list_root.empty() ? std::string() : absolute(o.list_root.string());
       },
       [](Options& o, const std::string& text) { o.list_root = text; }},
      {"--files", [](const Options& o) { return pack_pairs(o.list_files); },
       [](Options& o, const std::string& text) { o.list_files = unpack_pairs(text); },
       [](const Options& o) { return pair_words("--files", o.list_files); }},
      {"--class", [](const Options& o) { return o.list_class; },
       [](Options& o, const std::string& text) { o.list_class = text; }},
      {"--dtype", [](const Options& o) { return o.dtype; },
       [](Options& o, const std::string& text) { o.dtype = text; }},
      {"--seq-len", [](const Options& o) { return std::to_string(o.seq_len); },
       [](Options& o, const std::string& text) { o.seq_len = std::stoull(text); }},
      {"--pair", [](const Options& o) { return pack_pairs(o.pairs); },
       [](Options& o, const std::string& text) { o.pairs = unpack_pairs(text); },
       [](const Options& o) { return pair_words("--pair", o.pairs); }},
      {"--pair-optional",
       [](const Options& o) { return std::string(o.pair_optional ? "yes" : ""); },
       [](Options& o, const std::string& text) { o.pair_optional = !text.empty(); },
       [](const Options&) { return std::vector<std::string>{"--pair-optional"}; }},
      {"--pack", [](const Options& o) { return std::to_string(o.pack); },
       [](Options& o, const std::string& text) { o.pack = std::stoull(text); }},
      {"--eos", [](const Options& o) { return o.eos ? std::to_string(*o.eos) : std::string(); },
       [](Options& o, const std::string& text) {
         o.eos.reset();
         if (!text.empty()) o.eos = std::stoll(text);
       }},
      {"--fields", [](const Options& o) { return joined(o.fields); },
       [](Options& o, const std::string& text) { o.fields = parts_of(text); }},
      {"--rename", [](const Options& o) { return pack_pairs(o.rename); },
       [](Options& o, const std::string& text) { o.rename = unpack_pairs(text); },
       [](const Options& o) { return pair_words("--rename", o.rename); }},
      {"--classes",
       [](const Options& o) { return o.classes.empty() ? std::string() : absolute(o.classes); },
       [](Options& o, const std::string& text) { o.classes = text; }},
      {"--split", split_text,
       [](Options& o, const std::string& text) {
         o.split.clear();
         for (const std::string& part : parts_of(text)) {
           const std::size_t at = part.rfind('=');
           o.split.emplace_back(part.substr(0, at), std::stod(part.substr(at + 1)));
         }
       }},
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
  ConvertOptions options;
  apply_option_texts(texts, options);
  std::vector<std::string> words;
  for (const Entry& entry : entries()) {
    const std::string text = entry.get(options);
    if (std::string_view(entry.name) == kSources || text == defaults.at(entry.name)) continue;
    if (entry.words != nullptr) {
      for (std::string& word : entry.words(options)) words.push_back(std::move(word));
    } else {
      words.push_back(entry.name);
      words.push_back(text);
    }
  }
  return words;
}

}  // namespace shardmill::internal
