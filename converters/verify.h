// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/progress.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardmill {

struct VerifyOptions {
  std::string shards = {};  ///< Checks only shards whose file name matches this pattern (`*`, `?`).
  bool decode = false;      ///< Also decodes every image field.
  int jobs = 0;             ///< Processes; 0: one per usable CPU; 1: the calling process alone.
};

/// Something that is not as it was written. Key and field are empty where a whole shard, or the
/// part of it between the samples, is concerned.
struct Damage {
  std::string shard;  ///< Path.
  std::string key;
  std::string field;
  std::string cause;
};

/// A sample that two datasets do not have alike. An empty field means the whole sample.
struct Difference {
  std::string key;
  std::string field;
  std::string cause;
};

struct VerifyReport {
  std::uint64_t samples = 0;  ///< Samples that could be read.
  std::uint64_t bytes = 0;    ///< Of their payloads.
  std::vector<Damage> damaged;
  std::string content_digest;           ///< Of what was read.
  std::optional<bool> equal;            ///< Only with a second dataset.
  std::vector<Difference> differences;  ///< The first of them, in the first dataset's order.
  std::vector<Damage> other_damaged;    ///< What is wrong with the second dataset.
  /// The commands that make the damaged shards again, and no others; empty if nothing is damaged,
  /// or it is not known what the dataset was made of.
  std::string rebuild;

  bool ok() const noexcept {
    return damaged.empty() && other_damaged.empty() && equal.value_or(true);
  }
};

/// Reads every byte of the DATASET `spec`: structure, sample counts, the checksum of each shard
/// file (manifest) and of each sample (`.sum` files), as far as the dataset has them. Damage is
/// collected, never thrown; one damaged sample or shard does not stop the check of the others.
/// Throws Error only where there is no dataset to look at, and Interrupted.
VerifyReport verify(const std::string& spec, const VerifyOptions& options,
                    const Observer& observer = {});

/// The same, and tells whether `other`, in any format and order, holds the same samples.
VerifyReport verify_equal(const std::string& spec, const std::string& other,
                          const VerifyOptions& options, const Observer& observer = {});

}  // namespace shardmill
