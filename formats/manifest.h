// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/digest.h>
#include <shardmill/formats/writer.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill {

/// The name of the manifest in a dataset directory.
inline constexpr const char* kManifestName = "manifest.json";

/// One shard as the manifest lists it.
struct ManifestShard {
  std::string url;             ///< Relative to the manifest's directory.
  std::uint64_t samples = 0;   ///< `nsamples`
  std::uint64_t filesize = 0;  ///< Of Format::data_file(), bytes.
  std::string xxh3;            ///< XXH3-128 of that file, 32 hexadecimal digits; empty: unknown.
};

/// What becomes of a field's value on its way into a sample.
enum class FieldValue : std::uint8_t {
  kAsStored,  ///< Nothing.
  kSqueezed,  ///< The array, without its dimensions of size 1.
  kNumber,    ///< A class number: a decimal text, an array of one integer, a JSON number.
  kName,      ///< A class name, a text or a JSON string: its number among the classes.
  kShard,     ///< A class number that belongs to the shard; no field is read.
};

/// Returns "stored", "squeezed", "number", "name" or "shard", as in manifests.
std::string_view field_value_name(FieldValue value) noexcept;

/// Where one field of the samples comes from, in a manifest that adopts data as they are: see
/// docs/index.md.
struct FieldRule {
  std::string name;          ///< As samples have it.
  std::uint32_t part = 0;    ///< 0: the manifest's shards; n: `joined[n - 1]`.
  std::string from = {};     ///< The field there.
  std::string pointer = {};  ///< JSON pointer into its value; empty: all of it.
  FieldValue value = FieldValue::kAsStored;
  /// For kNumber the new number of each old one (empty: unchanged), for kShard that of each shard.
  std::vector<std::int64_t> numbers = {};
  bool operator==(const FieldRule&) const = default;
};

/// What a dataset directory says about itself. On disk it has the shape of the `wids` shard
/// index (and its mark, where the shards are tars) plus shardmill's own keys.
struct Manifest {
  std::string format;
  std::vector<ManifestShard> shards;
  std::vector<FieldSpec> fields;
  std::vector<std::string> classes;  ///< Class names by number; may be empty.
  std::string order = "mixed";       ///< "mixed", or "class-sorted": same classes stand together.
  std::map<std::string, std::string> libraries;  ///< Versions that the bytes depend on.
  std::string content_digest;  ///< Sum of the sample hashes, 32 hexadecimal digits; may be empty.
  /// All fields of the samples; empty: those that the shards hold.
  std::vector<FieldRule> rules = {};
  /// Sets of the same length whose samples are joined to these, number by number. Of each only
  /// format and shards are used.
  std::vector<Manifest> joined = {};
  std::string index = {};  ///< File with the indices of all shards, relative; may be empty.

  std::uint64_t samples() const noexcept;
};

/// Reads a manifest; throws kDataLoss naming what is missing or malformed, kUnsupported for a
/// layout version newer than this program.
Manifest load_manifest(const std::filesystem::path& file);

/// Returns the text of a manifest file, and parses such text (`path` is for messages).
std::string manifest_text(const Manifest& manifest);
Manifest parse_manifest(std::string_view text, const std::string& path);

/// Writes a manifest atomically. Equal manifests give equal bytes.
void save_manifest(const std::filesystem::path& file, const Manifest& manifest);

}  // namespace shardmill
