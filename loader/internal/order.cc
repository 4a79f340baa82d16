// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/order.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>
#include <string>

namespace shardmill::internal {

namespace {

// Streams of Random that belong to the order; outputs count from 0 upwards.
constexpr std::uint64_t kDrawStream = ~std::uint64_t{0};

constexpr std::uint64_t kCycle = 4096;  // draws in which a mixture's shares are exact
// A block of 64 photographs is one long read, a window of 64 blocks mixes 4096 samples.
constexpr std::uint64_t kDefaultBlock = 64;
constexpr std::uint64_t kDefaultWindow = 64;
constexpr std::uint64_t kQualityBatches = 64;  // batches that the quality is taken from

[[noreturn]] void refuse(const std::string& option, const std::string& cause) {
  throw Error(ErrorCode::kInvalidArgument, {}, "loader option " + option, cause);
}

std::uint64_t hash_append(std::uint64_t hash, std::uint64_t value) {
  return mix_bits(hash ^ mix_bits(value));
}

void check_weights(const char* option, std::span<const double> weights) {
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] < 0) {
      refuse(option, "weight " + std::to_string(i) + " is " + std::to_string(weights[i]) +
                         ", must be a finite number of 0 or more");
    }
    sum += weights[i];
  }
  if (!(sum > 0) || !std::isfinite(sum)) refuse(option, "the weights' sum must be above 0");
}

ShuffleSettings settings_of(const LoaderOptions& options, const FormatTraits& traits) {
  ShuffleSettings settings{options.shuffle, 1, 1};
  // Whole reads of the format, as many as make a block.
  const std::uint64_t read = std::max<std::uint64_t>(traits.samples_per_read, 1);
  const std::uint64_t block = (std::max(kDefaultBlock, read) + read - 1) / read * read;
  settings.block_size = options.block_size == 0 ? block : options.block_size;
  settings.block_window = options.block_window == 0 ? kDefaultWindow : options.block_window;
  return settings;
}

}  // namespace

AliasTable::AliasTable(std::span<const double> weights)
    : threshold_(weights.size(), ~std::uint64_t{0}), alias_(weights.size()) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const auto count = static_cast<double>(weights.size());
  std::iota(alias_.begin(), alias_.end(), std::uint64_t{0});
  std::vector<double> scaled(weights.size());
  std::vector<std::uint64_t> small;
  std::vector<std::uint64_t> large;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    scaled[i] = weights[i] / sum * count;
    (scaled[i] < 1 ? small : large).push_back(i);
  }
  while (!small.empty() && !large.empty()) {
    const std::uint64_t poor = small.back();
    const std::uint64_t rich = large.back();
    small.pop_back();
    threshold_[poor] = static_cast<std::uint64_t>(scaled[poor] * 0x1p64);
    alias_[poor] = rich;
    scaled[rich] -= 1 - scaled[poor];
    if (scaled[rich] < 1) {
      large.pop_back();
      small.push_back(rich);
    }
  }
  // What rounding left over keeps its own number, unless its weight is nothing at all.
  if (!small.empty()) {
    const auto heaviest = static_cast<std::uint64_t>(
        std::max_element(weights.begin(), weights.end()) - weights.begin());
    for (const std::uint64_t rest : small) {
      if (weights[rest] > 0) continue;
      threshold_[rest] = 0;
      alias_[rest] = heaviest;
    }
  }
}

std::uint64_t AliasTable::draw(Random& random) const noexcept {
  const std::uint64_t column = random.below(threshold_.size());
  return random() < threshold_[column] ? column : alias_[column];
}

EpochOrder::EpochOrder(const LoaderOptions& options, std::span<const std::uint64_t> sizes,
                       std::span<const double> mixture, const FormatTraits& traits)
    : shuffle_(settings_of(options, traits)), subset_(options.subset) {
  const std::uint64_t samples = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  for (const std::uint64_t sample : subset_) {
    if (sample < samples) continue;
    refuse("subset", "names sample " + std::to_string(sample) + ", the dataset has " +
                         std::to_string(samples));
  }
  items_ = subset_.empty() ? samples : subset_.size();
  for (const std::uint64_t sample : subset_) definition_ = hash_append(definition_, sample);
  if (__builtin_mul_overflow(items_, options.repeat, &positions_)) {
    refuse("repeat", "is " + std::to_string(options.repeat) + ", too many for this dataset");
  }
  const std::uint64_t draws = options.samples_per_epoch;
  if (!options.weights.empty()) {
    if (options.weights.size() != items_) {
      refuse("weights", "has " + std::to_string(options.weights.size()) + " weights for " +
                            std::to_string(items_) + " samples");
    }
    check_weights("weights", options.weights);
    for (const double weight : options.weights) {
      definition_ = hash_append(definition_, std::bit_cast<std::uint64_t>(weight));
    }
    alias_.emplace(options.weights);
    if (draws > 0) positions_ = draws;
  } else if (!mixture.empty()) {
    prepare_mixture(sizes, mixture);
    if (draws > 0) positions_ = draws;
  }
}

void EpochOrder::prepare_mixture(std::span<const std::uint64_t> sizes,
                                 std::span<const double> mixture) {
  check_weights("mixture", mixture);
  const double sum = std::accumulate(mixture.begin(), mixture.end(), 0.0);
  std::uint64_t first = 0;
  std::uint64_t given = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Part part;
    part.first = first;
    part.size = sizes[i];
    first += sizes[i];
    if (mixture[i] > 0) {
      const auto share = static_cast<std::uint64_t>(mixture[i] / sum * double{kCycle});
      part.share = std::max<std::uint64_t>(share, 1);
    }
    given += part.share;
    definition_ = hash_append(definition_, std::bit_cast<std::uint64_t>(mixture[i]));
    definition_ = hash_append(definition_, sizes[i]);
    parts_.push_back(std::move(part));
  }
  // The few draws that rounding left go to the largest share, where they matter least.
  const auto largest = std::max_element(
      parts_.begin(), parts_.end(), [](const Part& a, const Part& b) { return a.share < b.share; });
  if (given < kCycle) largest->share += kCycle - given;
  const std::uint64_t cycle = std::max(given, kCycle);
  // The parts take turns as evenly as their shares allow: the one furthest behind comes next.
  std::vector<double> credit(parts_.size(), 0);
  std::vector<std::uint32_t> drawn(parts_.size(), 0);
  for (std::uint64_t i = 0; i < cycle; ++i) {
    std::size_t next = 0;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      credit[p] += static_cast<double>(parts_[p].share);
      if (credit[p] > credit[next]) next = p;
    }
    credit[next] -= static_cast<double>(cycle);
    cycle_.push_back({static_cast<std::uint32_t>(next), drawn[next]++});
  }
}

void EpochOrder::begin(std::uint64_t seed, std::uint64_t epoch, std::uint64_t lanes) {
  if (lanes_ == lanes && epoch_ == epoch && seed_ == seed) return;
  if (seed_ != seed) {
    cycle_number_ = ~std::uint64_t{0};
    for (Part& part : parts_) part.passes = {};
  }
  seed_ = seed;
  epoch_ = epoch;
  lanes_ = lanes;
  pass_.reset();
  if (!alias_ && parts_.empty()) {
    pass_.emplace(shuffle_, positions_, mix_bits(seed) ^ mix_bits(~epoch), lanes);
  }
}

std::uint64_t EpochOrder::sample(std::uint64_t position) {
  if (!parts_.empty()) return mixed(position);
  std::uint64_t item = 0;
  if (alias_) {
    Random random(seed_, epoch_, position, kDrawStream);
    item = alias_->draw(random);
  } else {
    item = (*pass_)(position) % items_;
  }
  return subset_.empty() ? item : subset_[item];
}

std::uint64_t EpochOrder::any_sample(Random& random) const noexcept {
  const std::uint64_t item = alias_ ? alias_->draw(random) : random.below(items_);
  return subset_.empty() ? item : subset_[item];
}

std::uint64_t EpochOrder::mixed(std::uint64_t position) {
  // Positions count on over epochs, so that no part begins anew before it was gone through.
  const std::uint64_t drawn = epoch_ * positions_ + position;
  const std::uint64_t cycle = drawn / cycle_.size();
  std::uint64_t turn = drawn % cycle_.size();
  if (shuffle_.shuffle != Shuffle::kNone) {
    if (cycle_number_ != cycle) {
      cycle_number_ = cycle;
      cycle_order_.emplace(cycle_.size(), hash_append(mix_bits(seed_), cycle));
    }
    turn = (*cycle_order_)(turn);
  }
  const std::uint32_t index = cycle_[turn].part;
  Part& part = parts_[index];
  const std::uint64_t draw = cycle * part.share + cycle_[turn].number;
  const std::uint64_t number = draw / part.size;
  Part::Pass& pass = part.passes[number % part.passes.size()];
  if (pass.number != number) {
    pass.number = number;
    pass.order.emplace(shuffle_, part.size,
                       hash_append(hash_append(mix_bits(seed_), ~std::uint64_t{index}), number));
  }
  return part.first + (*pass.order)(draw % part.size);
}

std::uint64_t EpochOrder::digest() const noexcept {
  std::uint64_t hash = hash_append(definition_, static_cast<std::uint64_t>(shuffle_.shuffle));
  if (shuffle_.shuffle == Shuffle::kBlock) {
    hash = hash_append(hash_append(hash, shuffle_.block_size), shuffle_.block_window);
  }
  return hash_append(hash, positions_);
}

double EpochOrder::quality(std::uint64_t batch_size) {
  const std::uint64_t rows = std::min(batch_size, positions_);
  const std::uint64_t batches = rows == 0 ? 0 : std::min(kQualityBatches, positions_ / rows);
  if (batches == 0 || rows < 2) return 1;
  const std::uint64_t size =
      std::min(shuffle_.block_size == 1 ? kDefaultBlock : shuffle_.block_size,
               std::max<std::uint64_t>(items_ / 2, 1));
  double found = 0;
  for (std::uint64_t batch = 0; batch < batches; ++batch) {
    // Batches spread over the epoch.
    const std::uint64_t begin = positions_ / rows * batch / batches * rows;
    std::set<std::uint64_t> places;
    for (std::uint64_t row = 0; row < rows; ++row) places.insert(sample(begin + row) / size);
    found += static_cast<double>(places.size()) / static_cast<double>(batches);
  }
  const double places = std::ceil(static_cast<double>(items_) / static_cast<double>(size));
  const double expected = places * (1 - std::pow(1 - 1 / places, static_cast<double>(rows)));
  return found / expected;
}

}  // namespace shardmill::internal
