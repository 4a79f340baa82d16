// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/verify.h>
#include <shardmill/formats/dataset.h>
#include <shardmill/loader/decode/image.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "converters/internal/task_pool.h"

namespace shardmill::internal {

/// One shard, and what its dataset says about it.
struct ShardToCheck {
  std::filesystem::path path;
  std::optional<ManifestShard> listed;
  std::filesystem::path sums;  ///< Where its sample hashes would stand; empty: there are none.
  const Format* format = nullptr;
};

/// The shards of a dataset, found without opening them: damage is for ShardCheck to find.
struct CheckPlan {
  std::string name;
  const Format* format = nullptr;
  std::vector<ShardToCheck> shards;
  std::string content_digest;  ///< As the manifest has it; may be empty.
  std::uint64_t samples = 0;   ///< As far as the manifest knows, else 0.
  std::uint64_t bytes = 0;     ///< 0: unknown.
  /// The samples are made of what the shards hold (Manifest::rules): shards are checked for
  /// themselves, and the samples beside that.
  bool view = false;
};
/// Takes only shards whose name matches `pattern`, unless that is empty. Throws kNotFound if none
/// does.
CheckPlan plan_check(const std::string& spec, const std::string& pattern = {});

/// Reads samples first ... first + count - 1 of a dataset whose manifest has rules, and adds up
/// their hashes. What cannot be read is collected.
struct ViewCheck {
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;
  Digest digest;
  std::vector<Damage> damaged;

  void run(DatasetReader& reader, const DatasetShard& range, TaskContext& context);
};

/// Decodes the images of samples, if asked to, and collects what cannot be decoded.
class ImageCheck {
 public:
  explicit ImageCheck(bool decode);
  void check(const SampleView& sample, const std::string& shard, std::vector<Damage>& out);

 private:
  std::optional<ImageDecoder> decoder_;
};

/// Reads all of one shard and collects what is wrong with it.
class ShardCheck {
 public:
  ShardCheck(const ShardToCheck& shard, bool decode);
  void run(TaskContext& context);

  std::uint64_t samples() const noexcept { return samples_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  const Digest& digest() const noexcept { return digest_; }
  const std::vector<Damage>& damaged() const noexcept { return damaged_; }

 private:
  void check_file();
  void check_samples(TaskContext& context);
  void check_sample(Reader& reader, std::uint64_t n, TaskContext& context);
  void damage(std::string_view key, std::string_view field, std::string cause);

  const Format& format_;
  const ShardToCheck& shard_;
  std::optional<std::vector<std::uint64_t>> sums_;
  SampleHasher hasher_;
  ImageCheck images_;
  std::uint64_t samples_ = 0;
  std::uint64_t bytes_ = 0;
  Digest digest_;
  std::vector<Damage> damaged_;
};

}  // namespace shardmill::internal
