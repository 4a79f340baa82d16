// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/format.h>
#include <shardmill/formats/manifest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill {

/// One shard of an open dataset.
struct DatasetShard {
  std::filesystem::path path;  ///< Absolute.
  std::uint64_t first = 0;     ///< Number of its first sample in the dataset.
  std::uint64_t samples = 0;
};

/// Shards of one format. All parts of a dataset have the same number of samples: those of one
/// number are joined to one sample.
struct DatasetPart {
  const Format* format = nullptr;
  std::vector<DatasetShard> shards;
};

/// An ordered list of shards of one format, with their indices: everything that readers need,
/// in one flat piece of memory without pointers that processes can share.
///
/// Immutable after construction; any thread may use it.
class Dataset {
 public:
  /// Opens a DATASET as the command line takes it: a dataset directory or manifest file, one
  /// shard, a glob, a brace range (`train-{000000..000146}.tar`), or a folder of raw files.
  /// Builds the index of every shard (the only expensive step), unless an index file of the
  /// manifest, or one beside the shard (`SHARD.index`), has one that fits the shard's size and
  /// time; such files are mapped and shared by all processes. Throws kNotFound, kUnsupported (no
  /// format recognises it), kDataLoss (damage; counts that contradict the manifest).
  static Dataset open(std::string_view spec, Access access = Access::kAuto);

  /// Returns the same dataset as flat bytes, and a dataset that borrows such bytes, which must
  /// outlive it and lie at a multiple of 8. This is how worker processes share one index.
  std::span<const std::byte> flat() const noexcept;
  static Dataset attach(std::span<const std::byte> flat);

  std::uint64_t size() const noexcept;  ///< Number of samples.
  const std::string& spec() const noexcept;
  const Format& format() const noexcept;  ///< Of the first part.
  Access access() const noexcept;
  const std::vector<DatasetShard>& shards() const noexcept;  ///< Of the first part.
  /// All parts: one, unless the manifest joins others (`shardmill index --with`).
  const std::vector<DatasetPart>& parts() const noexcept;
  /// Where the samples' fields come from; empty: they are those of the first part.
  const std::vector<FieldRule>& rules() const noexcept;
  const std::vector<std::string>& classes() const noexcept;
  /// The manifest, if the dataset has one.
  const std::optional<Manifest>& manifest() const noexcept;
  /// Why the dataset was taken for what it is, in words.
  const std::string& kind_reason() const noexcept;
  const ShardInfo& info() const noexcept;  ///< Of all shards together.

  /// Returns the index bytes of shard `s`, as Format::open wants them. Throws kDataLoss if they
  /// are in an index file and damaged.
  std::span<const std::byte> shard_index(std::size_t s, std::size_t part = 0) const;
  /// Returns which shard holds sample `n`. REQUIRES: n < size().
  std::size_t shard_of(std::uint64_t n, std::size_t part = 0) const noexcept;

 private:
  struct State;
  std::shared_ptr<const State> state_;
  explicit Dataset(std::shared_ptr<const State> state) : state_(std::move(state)) {}
};

/// Reads the samples of a dataset in any order; opens shards when they are first needed.
/// One thread; opened in the process that reads.
class DatasetReader {
 public:
  explicit DatasetReader(Dataset dataset);
  ~DatasetReader();
  DatasetReader(DatasetReader&&) noexcept;
  DatasetReader& operator=(DatasetReader&&) noexcept;

  const Dataset& dataset() const noexcept { return dataset_; }
  std::uint64_t size() const noexcept { return dataset_.size(); }
  /// Lends sample `n`, valid until the next read() of any sample. REQUIRES: n < size().
  void read(std::uint64_t n, SampleView& out);
  /// The same for callers that need names, sizes and the beginnings of payloads alone.
  void peek(std::uint64_t n, SampleView& out);
  void will_need(std::uint64_t n) noexcept;
  /// Says that sample `n` is read next; see Reader::prefetch(). REQUIRES: n < size().
  void prefetch(std::uint64_t n) const noexcept;
  /// Says where a field of sample `n` lies in its shard, for messages; see Reader::where().
  std::string where(std::uint64_t n, std::string_view field);

 private:
  struct Joined;
  Reader& shard_reader(std::size_t s, std::size_t part = 0);
  template <void (Reader::*Read)(std::uint64_t, SampleView&)>
  void read_with(std::uint64_t n, SampleView& out);

  Dataset dataset_;
  std::vector<std::vector<std::unique_ptr<Reader>>> readers_;  // by part and shard
  std::unique_ptr<Joined> joined_;                             // only where there are rules
};

}  // namespace shardmill
