// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/dataset.h>
#include <shardmill/loader/batch.h>
#include <shardmill/loader/options.h>
#include <shardmill/loader/stats.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill {

namespace internal {
class Engine;
}

/// One dataset of a mixture.
struct MixturePart {
  std::string dataset;  ///< A DATASET as the command line takes it.
  double weight = 1;    ///< Its share of the samples, relative to the others' weights.
};

/// Loads a dataset batch by batch, prepared ahead by worker processes.
///
///     shardmill::Loader loader("photos-lmdb", {.outputs = {image_output("image", 224, 224),
///                                                          class_output()},
///                                              .batch_size = 64, .shuffle = Shuffle::kFull});
///     for (std::uint64_t epoch = 0; epoch < 10; ++epoch) {
///       for (Batch& batch : loader.epoch(epoch)) train(batch);
///     }
///
/// The sequence of batches depends on the dataset, the seed and the epoch alone, not on
/// num_workers, deaths of workers or timing; over all ranks together it does not depend on their
/// number either. Workers start at construction and stay over epochs; while the last batches of an
/// epoch are consumed, the first of the next are prepared.
/// Construct it before starting threads and before using CUDA where that is easy; a lock that a
/// thread held at that moment shows as an error, not as a hang.
///
/// One thread at a time. After fork(), only the constructing process may use it. The destructor
/// ends all workers; batches still held stay valid.
class Loader {
 public:
  /// Opens `dataset` (a DATASET as the command line takes it). The opening happens in a child
  /// process, so that a hostile file or a library's state never touches this one. Throws what
  /// Dataset::open throws, and kInvalidArgument for options.
  Loader(std::string dataset, LoaderOptions options);
  /// Loads an open dataset.
  Loader(Dataset dataset, LoaderOptions options);
  /// Loads several datasets mixed by weight, of any formats that have the outputs' fields. Each is
  /// gone through completely before it begins anew, over epochs; an epoch has
  /// `samples_per_epoch` samples. Batch::samples() numbers them one dataset behind the other.
  Loader(const std::vector<MixturePart>& mixture, LoaderOptions options);
  ~Loader();
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;

  const Dataset& dataset() const noexcept;  ///< Of a mixture: the first.
  const std::vector<Dataset>& datasets() const noexcept;
  /// Returns the options with nothing left open: outputs, seed and num_workers are resolved.
  const LoaderOptions& options() const noexcept;
  /// Return how many batches and rows this rank has in a whole epoch: known before it begins,
  /// padding counted, without what drop_last or Uneven::kDrop leave out.
  std::uint64_t batches_per_epoch() const noexcept;
  std::uint64_t samples_per_epoch() const noexcept;

  /// Goes to the first batch of `epoch`. Costs nothing if that is the next batch anyway, which
  /// then has been prepared already; otherwise gives up what was prepared.
  void start_epoch(std::uint64_t epoch);

  /// Waits for the next batch of the epoch (of epoch 0, if none was started) and lends it. Returns
  /// false at the epoch's end. With BadSamples::kFail throws the first error in row order when a
  /// batch has one (naming shard and sample; the batch is given up, the next call goes on behind
  /// it); else kResourceExhausted when too many samples are bad. Throws kResourceExhausted when all
  /// slots stay lent for lease_timeout_ms, kInternal when workers die too often.
  bool next(Batch& batch);

  /// True if next() would return a batch of this epoch without waiting. Without workers: never.
  bool ready() const;

  /// A range over the batches of one epoch, for range-based for loops. Leaving it early is fine.
  class EpochRange;
  EpochRange epoch(std::uint64_t epoch);

  /// Returns where the run stands, counted in batches that next() has delivered: a short JSON
  /// object for a checkpoint. Ranks that have had equally many batches return the same.
  std::string state() const;
  /// Goes on where state() was taken: the next start_epoch() of the state's epoch, or next(),
  /// begins behind the last batch delivered then. Takes the same time at any position, and works
  /// with other numbers of workers and ranks and another batch size: all ranks together visit the
  /// rest of the epoch's samples, each once. Takes the state's seed unless the option gives one.
  /// Throws kInvalidArgument for a state of another dataset, seed or order.
  void resume(std::string_view state);
  /// Returns the epoch that next() delivers from: after resume(), the one to go on with.
  std::uint64_t current_epoch() const noexcept;

  /// Makes the row at a global position of an epoch again, in this process and alone (a batch of
  /// one, identical to the delivered row): for looking at one odd augmentation in a debugger.
  /// Throws its error if the sample is bad.
  Batch replay(std::uint64_t epoch, std::uint64_t position);

  /// Returns how well the batches of the current epoch are mixed: from how many different
  /// neighbourhoods of the dataset a batch draws, relative to drawing at random. About 1 for
  /// Shuffle::kFull, near 0 for kNone, in between for kBlock.
  double shuffle_quality() const;

  LoaderStats stats() const;

 private:
  std::unique_ptr<internal::Engine> engine_;
};

class Loader::EpochRange {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = Batch*;
    using reference = Batch&;

    explicit Iterator(Loader* loader) : loader_(loader) { advance(); }
    Batch& operator*() noexcept { return batch_; }
    Batch* operator->() noexcept { return &batch_; }
    Iterator& operator++() {
      advance();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const noexcept { return loader_ == nullptr; }

   private:
    void advance() {
      batch_ = Batch();  // the slot goes back before the next one is waited for
      if (!loader_->next(batch_)) loader_ = nullptr;
    }
    Loader* loader_;
    Batch batch_;
  };

  Iterator begin() const { return Iterator(loader_); }
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  friend class Loader;
  explicit EpochRange(Loader* loader) : loader_(loader) {}
  Loader* loader_;
};

inline Loader::EpochRange Loader::epoch(std::uint64_t epoch) {
  start_epoch(epoch);
  return EpochRange(this);
}

}  // namespace shardmill
