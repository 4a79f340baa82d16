// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/progress.h>
#include <shardmill/formats/dataset.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill {

/// One field over all samples of a dataset.
struct FieldSummary {
  std::string name;
  FieldKind kind = FieldKind::kBytes;
  std::optional<ArrayType> array;  ///< For kArray.
  std::uint64_t samples = 0;       ///< How many samples have it.
  std::uint64_t bytes = 0;         ///< Of all its payloads.
  std::uint64_t bytes_min = 0;
  std::uint64_t bytes_max = 0;
  bool optional = false;  ///< Some samples lack it.

  double bytes_mean() const noexcept {
    return samples == 0 ? 0.0 : static_cast<double>(bytes) / static_cast<double>(samples);
  }
};

/// What a dataset is and holds.
struct Inspection {
  std::string format;
  std::string layout;
  std::string kind_reason;  ///< Why the path was taken for what it is.
  std::string order;        ///< "mixed" or "class-sorted".
  std::uint64_t shards = 0;
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;  ///< Of the shard files; of the payloads for a folder.
  std::vector<std::string> classes;
  std::vector<FieldSummary> fields;
  std::vector<std::string> warnings;
};

/// Looks at every sample of `dataset`, at payloads only as far as kinds need it.
Inspection inspect(const Dataset& dataset, const Observer& observer = {});

/// Describes what is not a dataset but one file, as a JSON object (text): an image or .npy payload
/// as describe_payload() does. Returns nothing if `file` is no such payload.
std::optional<std::string> describe_payload_file(const std::filesystem::path& file, bool hash);

/// Describes one file of a storage format, whether it holds samples or not, as a JSON object
/// (text): Format::describe() and the format's name. Throws kUnsupported if no format recognises
/// it, kDataLoss for damage.
std::string describe_shard(const std::filesystem::path& file, bool hash);

/// Returns the number of the sample that `which` names: a number below dataset.size() in
/// shortest decimal, or else a key. Throws kNotFound.
std::uint64_t find_sample(DatasetReader& reader, std::string_view which,
                          const Observer& observer = {});

/// Writes each field of `sample` as `KEY.FIELD` below `folder` (arrays as .npy bytes) and returns
/// the files. Refuses, before writing, keys and fields that would lie outside `folder`
/// (kInvalidArgument), and files that exist. `path` names the sample's shard in messages.
std::vector<std::filesystem::path> extract_sample(const SampleView& sample,
                                                  const std::filesystem::path& folder,
                                                  const std::string& path);

}  // namespace shardmill
