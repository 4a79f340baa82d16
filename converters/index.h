// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/progress.h>
#include <shardmill/formats/manifest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace shardmill {

/// What to adopt, and how its samples are to look.
struct IndexOptions {
  std::vector<std::string> sources = {};  ///< DATASETs of one format, one behind the other.
  std::filesystem::path output = {};      ///< NAME.json; may be empty with `beside`.
  std::vector<std::string> with = {};     ///< DATASETs of equal length, joined by number.

  std::vector<std::string> fields = {};  ///< Only these fields (by their new names); empty: all.
  std::vector<std::pair<std::string, std::string>> rename = {};  ///< Old and new name.
  std::string classes = {};     ///< Class order: a text file, a JSON file or a DATASET.
  std::string class_from = {};  ///< Where `cls` comes from: "source", FIELD or FIELD/json/pointer.

  std::string dtype = {};     ///< Sources are raw token files of this type ...
  std::uint64_t seq_len = 0;  ///< ... and rows of this length.

  bool beside = false;  ///< Writes SHARD.index beside each shard (and DALI's indices there).
  bool wids = false;    ///< Writes NAME.wids.json too.
  bool dali = false;    ///< Writes SHARD.idx for each tar too.
};

struct IndexReport {
  Manifest manifest;
  std::vector<std::filesystem::path> files;  ///< What was written.
  std::vector<std::string> warnings;
};

/// Makes a manifest and an index of data that stay where they are. Every sample is looked at once;
/// nothing is written before everything is known, and nothing beside the data unless asked.
///
/// Throws Error: kInvalidArgument for options that do not fit the data, otherwise what opening
/// the sources met; Interrupted.
IndexReport index(const IndexOptions& options, const Observer& observer = {});

}  // namespace shardmill
