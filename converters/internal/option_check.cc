// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/option_check.h"

#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>

#include <algorithm>
#include <string_view>

namespace shardmill::internal {

namespace {

[[noreturn]] void wrong_option(std::string option, std::string cause, std::string remedy) {
  throw Error(ErrorCode::kInvalidArgument, std::move(option), {}, std::move(cause),
              std::move(remedy));
}

bool reads_stdin(const ConvertOptions& options) {
  return std::count(options.sources.begin(), options.sources.end(), "-") > 0;
}

void check_running(const ConvertOptions& options) {
  if (options.world_size < 1 || options.rank < 0 || options.rank >= options.world_size) {
    wrong_option("--rank",
                 std::to_string(options.rank) + " is not one of " +
                     std::to_string(options.world_size) + " ranks",
                 "ranks count from 0 to the world size - 1");
  }
  if (options.world_size > 1 && options.force) {
    wrong_option("--force", "several ranks cannot agree on when to replace",
                 "remove the destination first");
  }
  if (reads_stdin(options)) {
    for (const auto& [set, name] :
         {std::pair(options.resume, "--resume"), std::pair(options.plan_only, "--plan-only"),
          std::pair(options.world_size > 1, "--world-size")}) {
      if (set) wrong_option(name, "standard input comes only once", "write it to a file first");
    }
  }
  if (options.max_errors && options.on_error == OnError::kFail) {
    wrong_option("--max-errors", "the first error ends the conversion", "add --on-error skip");
  }
  if (options.resume && options.force) {
    wrong_option("--resume", "goes on with what --force would remove", "give one of them");
  }
}

void check_sources(const ConvertOptions& options) {
  if (!options.dtype.empty() && options.seq_len == 0 && options.pack == 0) {
    wrong_option("--dtype", "raw token files need the length of rows", "add --seq-len L");
  }
  if (options.seq_len > 0 && options.dtype.empty()) {
    wrong_option("--seq-len", "raw token files need the type of tokens", "add --dtype uint16");
  }
  if (options.eos && options.pack == 0) {
    wrong_option("--eos", "stands between samples that are packed", "add --pack L");
  }
  if (options.pair_optional && options.pairs.empty()) {
    wrong_option("--pair-optional", "there are no pairs", "add --pair FIELD=TEMPLATE");
  }
}

void check_split(const ConvertOptions& options) {
  for (std::size_t i = 0; i < options.split.size(); ++i) {
    const auto& [name, share] = options.split[i];
    const bool plain = !name.empty() && name.front() != '.' &&
                       name.find_first_of(std::string_view("/\0{}*?[]", 8)) == std::string::npos;
    bool twice = false;
    for (std::size_t j = 0; j < i; ++j) twice = twice || options.split[j].first == name;
    if (!plain || twice) {
      wrong_option("--split", "\"" + escape(name) + "\" cannot name a directory of its own",
                   "for example train=0.9,val=0.1");
    }
    if (!(share > 0) || share > 1e9) {
      wrong_option("--split", "the share of " + name + " is not above 0", "for example val=0.1");
    }
  }
}

}  // namespace

void check_options(const ConvertOptions& options) {
  check_running(options);
  check_sources(options);
  check_split(options);
  try {
    find_format(options.format);
  } catch (const Error& error) {
    wrong_option("--to", error.info().cause, error.info().remedy);
  }
  if (options.hdf5_vlen && options.format != "hdf5") {
    wrong_option("--hdf5-layout", "is for --to hdf5 alone", "leave it out");
  }
  if (options.shard_bytes == 0) wrong_option("--shard-size", "is 0", "give a size such as 1G");
  if (options.name.empty() || options.name.front() == '.' ||
      options.name.find_first_of(std::string_view("/\0{}*?[]", 8)) != std::string::npos) {
    wrong_option("--name", "\"" + escape(options.name) + "\" cannot begin the names of shards",
                 "use letters, digits, '-' and '_'");
  }
  const auto bad_side = [](std::uint32_t side) { return side == 0 || side > 16384; };
  const auto& size = options.image_size;
  if ((size && (bad_side(size->width) || bad_side(size->height))) ||
      (options.image_shorter > 0 && bad_side(options.image_shorter))) {
    wrong_option("--image-size", "sides must lie between 1 and 16384", "for example 224x224");
  }
  if (size && options.image_shorter > 0) {
    wrong_option("--image-size", "is either one side or both", "give N or WxH");
  }
  if (options.quality < 1 || options.quality > 100) {
    wrong_option("--quality", std::to_string(options.quality) + " is not between 1 and 100",
                 "90 is the default");
  }
}

}  // namespace shardmill::internal
