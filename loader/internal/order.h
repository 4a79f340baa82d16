// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/format.h>
#include <shardmill/loader/options.h>
#include <shardmill/loader/random.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "loader/internal/pass_order.h"

namespace shardmill::internal {

/// Draws numbers of [0, weights) with the given weights, in O(1) each (Walker's alias method).
class AliasTable {
 public:
  AliasTable() = default;
  /// REQUIRES: finite weights >= 0 with a sum > 0.
  explicit AliasTable(std::span<const double> weights);
  std::uint64_t draw(Random& random) const noexcept;

 private:
  std::vector<std::uint64_t> threshold_;  // of 2^64: how often a column keeps its own number
  std::vector<std::uint64_t> alias_;
};

/// Which sample stands at which global position of an epoch: a function of (options, seed, epoch,
/// position) and, for Shuffle::kBlock, of the number of lanes. Lives in the trainer alone; workers
/// are told the sample of each row.
///
/// Samples are numbered over all datasets of a mixture, one behind the other.
class EpochOrder {
 public:
  /// `sizes` are the datasets' numbers of samples, `mixture` their weights (empty: one dataset).
  /// Throws kInvalidArgument where subset or weights do not fit them.
  EpochOrder(const LoaderOptions& options, std::span<const std::uint64_t> sizes,
             std::span<const double> mixture, const FormatTraits& traits);

  /// Returns the number of positions of an epoch.
  std::uint64_t positions() const noexcept { return positions_; }
  /// Chooses the epoch that sample() speaks of. Cheap when it is chosen already.
  void begin(std::uint64_t seed, std::uint64_t epoch, std::uint64_t lanes);
  /// Returns the sample at `position`; cheapest in ascending order. REQUIRES: position <
  /// positions(), begin() was called.
  std::uint64_t sample(std::uint64_t position);

  /// Returns any of the samples that epochs draw from.
  std::uint64_t any_sample(Random& random) const noexcept;

  /// Returns a hash of all that decides the order besides seed, epoch and lanes.
  std::uint64_t digest() const noexcept;

  /// Returns how well batches of `batch_size` consecutive positions of the chosen epoch are mixed:
  /// the number of different neighbourhoods (runs of block_size samples) that they draw from,
  /// relative to what drawing at random gives. About 1 for a full shuffle, near 0 for none.
  double quality(std::uint64_t batch_size);

 private:
  // One dataset of a mixture: it is gone through completely before it repeats, over epochs.
  struct Part {
    std::uint64_t first = 0;  // number of its first sample
    std::uint64_t size = 0;
    std::uint64_t share = 0;  // draws in a cycle
    struct Pass {
      std::uint64_t number = ~std::uint64_t{0};
      std::optional<PassOrder> order;
    };
    std::array<Pass, 2> passes;  // a cycle may lie in two of them
  };
  struct Draw {
    std::uint32_t part = 0;
    std::uint32_t number = 0;  // among the part's draws of this cycle
  };

  void prepare_mixture(std::span<const std::uint64_t> sizes, std::span<const double> mixture);
  std::uint64_t mixed(std::uint64_t position);

  ShuffleSettings shuffle_;
  std::vector<std::uint64_t> subset_;
  std::uint64_t items_ = 0;  // samples to draw from
  std::uint64_t positions_ = 0;
  std::uint64_t definition_ = 0;  // hash of subset, weights, mixture
  std::optional<AliasTable> alias_;
  std::vector<Part> parts_;  // of a mixture
  std::vector<Draw> cycle_;
  std::uint64_t cycle_number_ = ~std::uint64_t{0};
  std::optional<Permutation> cycle_order_;

  std::uint64_t seed_ = 0;
  std::uint64_t epoch_ = 0;
  std::uint64_t lanes_ = 0;  // 0: none chosen yet
  std::optional<PassOrder> pass_;
};

}  // namespace shardmill::internal
