// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/planner.h"

#include <shardmill/formats/error.h>

#include <algorithm>

namespace shardmill::internal {

namespace {

constexpr std::uint64_t kSubstituteStream = ~std::uint64_t{1};  // of Random

std::vector<std::uint64_t> sizes_of(const Corpus& corpus) {
  std::vector<std::uint64_t> sizes;
  for (const Dataset& dataset : corpus.datasets()) sizes.push_back(dataset.size());
  return sizes;
}

// What holds for reading any of the datasets.
FormatTraits traits_of(const Corpus& corpus) {
  FormatTraits traits;
  for (const Dataset& dataset : corpus.datasets()) {
    traits.samples_per_read =
        std::max(traits.samples_per_read, dataset.format().traits().samples_per_read);
  }
  return traits;
}

[[noreturn]] void refuse(const std::string& cause, const std::string& remedy) {
  throw Error(ErrorCode::kInvalidArgument, {}, "loader state", cause, remedy);
}

}  // namespace

Planner::Planner(LoaderOptions& options, const Corpus& corpus, const std::vector<double>& weights)
    : options_(options),
      corpus_(corpus),
      order_(options, sizes_of(corpus), weights, traits_of(corpus)) {}

Place Planner::start_of(std::uint64_t epoch) const noexcept {
  Place place;
  place.epoch = epoch;
  place.lanes = static_cast<std::uint64_t>(options_.world_size);
  place.schedule = {.total = order_.positions(),
                    .cursor = 0,
                    .rank = static_cast<std::uint64_t>(options_.rank),
                    .world_size = static_cast<std::uint64_t>(options_.world_size),
                    .batch_size = options_.batch_size,
                    .uneven = options_.uneven,
                    .drop_last = options_.drop_last};
  return place;
}

const std::vector<PlanEntry>& Planner::batch_at(const Place& place) {
  order_.begin(*options_.seed, place.epoch, place.lanes);
  rows_.clear();
  const std::uint64_t rows = place.schedule.rows_of(place.batch);
  for (std::uint64_t row = 0; row < rows; ++row) {
    add_row(place.epoch, place.schedule.position(place.batch, row));
  }
  return rows_;
}

const std::vector<PlanEntry>& Planner::row_at(std::uint64_t epoch, std::uint64_t lanes,
                                              std::uint64_t position) {
  const auto padding = static_cast<std::uint64_t>(options_.world_size);
  if (position >= order_.positions() + padding) {
    throw Error(ErrorCode::kInvalidArgument, corpus_.datasets().front().spec(),
                "position " + std::to_string(position),
                "an epoch has " + std::to_string(order_.positions()) + " positions");
  }
  order_.begin(*options_.seed, epoch, lanes);
  rows_.clear();
  add_row(epoch, position);
  return rows_;
}

// REQUIRES: the order is that of `epoch`.
void Planner::add_row(std::uint64_t epoch, std::uint64_t position) {
  PlanEntry& entry = rows_.emplace_back();
  entry.seed = *options_.seed;
  entry.epoch = epoch;
  entry.position = position;
  entry.sample[0] = order_.sample(position % order_.positions());
  entry.substitutes = 0;
  if (options_.bad_samples != BadSamples::kReplace) return;
  Random random(entry.seed, epoch, position, kSubstituteStream);
  std::uint64_t* const end = entry.sample + 1 + kSubstitutes;
  for (std::uint64_t* next = entry.sample + 1; next != end; ++next, ++entry.substitutes) {
    // A sample of its own, where there are enough of them.
    for (std::size_t i = 0; i <= kSubstitutes; ++i) {
      *next = order_.any_sample(random);
      if (std::find(entry.sample, next, *next) == next) break;
    }
  }
}

const std::string& Planner::identity() {
  if (identity_.empty()) identity_ = dataset_identity(corpus_.datasets());
  return identity_;
}

std::string Planner::state_at(const Place& place) {
  return SavedState{*options_.seed, place.epoch, place.schedule.cursor_after(place.batch),
                    place.lanes,    identity(),  hex(order_.digest())}
      .to_json();
}

Place Planner::resume(std::string_view state, bool seed_given) {
  const SavedState saved = SavedState::from_json(state);
  if (saved.dataset != identity()) {
    refuse("was taken from another dataset (" + saved.dataset + ", this one is " + identity() +
               "): a shard has another name, size or number of samples",
           "load the dataset that the run began with");
  }
  if (saved.options != hex(order_.digest())) {
    refuse("was taken with another order of samples",
           "use the shuffle, block_size, block_window, subset, repeat, weights and "
           "samples_per_epoch that the run began with");
  }
  if (seed_given && saved.seed != *options_.seed) {
    refuse("was taken with seed " + std::to_string(saved.seed) + ", the option gives " +
               std::to_string(*options_.seed),
           "leave the option open, or give the same");
  }
  if (saved.cursor > order_.positions()) {
    refuse("stands at sample " + std::to_string(saved.cursor) + " of an epoch of " +
               std::to_string(order_.positions()),
           "pass the text that Loader::state() returned");
  }
  options_.seed = saved.seed;
  Place place = start_of(saved.epoch);
  place.lanes = saved.lanes;
  place.schedule.cursor = saved.cursor;
  return place;
}

double Planner::quality(const Place& place) {
  order_.begin(*options_.seed, place.epoch, place.lanes);
  return order_.quality(options_.batch_size);
}

}  // namespace shardmill::internal
