// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/order.h"

#include <shardmill/formats/error.h>
#include <shardmill/loader/random.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "loader/internal/schedule.h"
#include "tests/support/catch.h"

using namespace shardmill;
using namespace shardmill::internal;

namespace {

constexpr FormatTraits kTraits{};

EpochOrder order_of(const LoaderOptions& options, std::vector<std::uint64_t> sizes,
                    std::vector<double> mixture = {}) {
  return {options, sizes, mixture, kTraits};
}

std::vector<std::uint64_t> samples_of(EpochOrder& order, std::uint64_t seed, std::uint64_t epoch) {
  order.begin(seed, epoch, 1);
  std::vector<std::uint64_t> samples;
  for (std::uint64_t p = 0; p < order.positions(); ++p) samples.push_back(order.sample(p));
  return samples;
}

}  // namespace

TEST_CASE("A permutation is one, for small and odd sizes", "[order]") {
  for (const std::uint64_t n : {1, 2, 3, 4, 5, 31, 32, 33, 255, 256, 257, 1000, 65'537}) {
    const Permutation permutation(n, 42);
    std::vector<bool> seen(n);
    for (std::uint64_t x = 0; x < n; ++x) {
      const std::uint64_t y = permutation(x);
      REQUIRE(y < n);
      REQUIRE_FALSE(seen[y]);
      seen[y] = true;
    }
  }
}

TEST_CASE("Orders of few samples are all about equally likely", "[order]") {
  // The z-score of chi-square over all 24 orders of 4 samples; the bound is five sigma.
  constexpr int kTrials = 48'000;
  std::map<std::vector<std::uint64_t>, int> counts;
  for (std::uint64_t seed = 0; seed < kTrials; ++seed) {
    const Permutation permutation(4, seed);
    ++counts[{permutation(0), permutation(1), permutation(2), permutation(3)}];
  }
  REQUIRE(counts.size() == 24);
  const double expected = kTrials / 24.0;
  double chi_square = 0;
  for (const auto& [order, count] : counts) chi_square += std::pow(count - expected, 2) / expected;
  CHECK(std::abs(chi_square - 23) / std::sqrt(2 * 23.0) < 5);
}

TEST_CASE("The order depends on seed and epoch, and none is the identity", "[order]") {
  const auto first_ten = [](Shuffle shuffle, std::uint64_t seed, std::uint64_t epoch) {
    EpochOrder order = order_of({.shuffle = shuffle}, {1000});
    order.begin(seed, epoch, 1);
    std::vector<std::uint64_t> samples;
    for (std::uint64_t position = 0; position < 10; ++position) {
      samples.push_back(order.sample(position));
    }
    return samples;
  };
  CHECK(first_ten(Shuffle::kFull, 1, 0) == first_ten(Shuffle::kFull, 1, 0));
  CHECK(first_ten(Shuffle::kFull, 1, 0) != first_ten(Shuffle::kFull, 1, 1));
  CHECK(first_ten(Shuffle::kFull, 1, 0) != first_ten(Shuffle::kFull, 2, 0));
  CHECK(first_ten(Shuffle::kNone, 1, 0)[9] == 9);
  // What was written down by an earlier build must not change: resuming depends on it.
  CHECK(first_ten(Shuffle::kFull, 7, 3) ==
        std::vector<std::uint64_t>{577, 570, 697, 727, 325, 907, 569, 408, 162, 687});
}

TEST_CASE("The order of a key is frozen: convert --shuffle and resuming promise it", "[order]") {
  const Permutation permutation(10, 1);
  std::vector<std::uint64_t> order;
  for (std::uint64_t i = 0; i < 10; ++i) order.push_back(permutation(i));
  CHECK(order == std::vector<std::uint64_t>{6, 7, 4, 0, 3, 1, 2, 5, 9, 8});
  CHECK(Permutation(1'281'167, 42)(0) == 323920);
}

TEST_CASE("Random numbers are uniform and depend on every part of their key", "[random]") {
  Random random(1, 2, 3);
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double value = random.uniform();
    REQUIRE(value >= 0);
    REQUIRE(value < 1);
    sum += value;
  }
  CHECK(std::abs(sum / 10'000 - 0.5) < 5 * std::sqrt(1 / 12.0 / 10'000));
  const std::uint64_t first = Random(1, 2, 3)();
  CHECK(first == Random(1, 2, 3)());
  CHECK(first != Random(0, 2, 3)());
  CHECK(first != Random(1, 0, 3)());
  CHECK(first != Random(1, 2, 0)());
  CHECK(first != Random(1, 2, 3, 1)());
  std::map<std::uint64_t, int> faces;
  for (int i = 0; i < 6000; ++i) ++faces[random.below(6)];
  REQUIRE(faces.size() == 6);
  for (const auto& [face, count] : faces)
    CHECK(std::abs(count - 1000) < 5 * std::sqrt(1000 * 5 / 6.0));
}

TEST_CASE("A block shuffle visits every item once, whatever the sizes", "[order]") {
  Random random(3, 0, 0);
  for (int trial = 0; trial < 2000; ++trial) {
    const std::uint64_t items = 1 + random.below(3000);
    const ShuffleSettings settings{Shuffle::kBlock, 1 + random.below(40), 1 + random.below(6)};
    const PassOrder order(settings, items, random(), 1 + random.below(5));
    std::vector<bool> seen(items);
    for (std::uint64_t position = 0; position < items; ++position) {
      const std::uint64_t item = order(position);
      REQUIRE(item < items);
      REQUIRE_FALSE(seen[item]);
      seen[item] = true;
    }
  }
}

TEST_CASE("A block shuffle gives any position alone, in any order of asking", "[order]") {
  const ShuffleSettings settings{Shuffle::kBlock, 8, 3};
  const PassOrder ascending(settings, 1000, 5, 2);
  std::vector<std::uint64_t> expected;
  for (std::uint64_t p = 0; p < 1000; ++p) expected.push_back(ascending(p));
  const PassOrder other(settings, 1000, 5, 2);
  for (std::uint64_t p = 1000; p-- > 0;) REQUIRE(other(p) == expected[p]);
  // What was written down by an earlier build must not change: resuming depends on it.
  CHECK(std::vector<std::uint64_t>(expected.begin(), expected.begin() + 8) ==
        std::vector<std::uint64_t>{889, 865, 892, 868, 347, 869, 348, 247});
}

TEST_CASE("With a lane for each rank, ranks read their own blocks alone", "[order]") {
  constexpr std::uint64_t kItems = 100'000;
  constexpr std::uint64_t kBlock = 64;
  constexpr std::uint64_t kRanks = 8;
  const auto blocks_touched = [&](std::uint64_t lanes) {
    const PassOrder order({Shuffle::kBlock, kBlock, 8}, kItems, 5, lanes);
    std::size_t touched = 0;
    for (std::uint64_t rank = 0; rank < kRanks; ++rank) {
      std::set<std::uint64_t> blocks;
      for (std::uint64_t p = rank; p < kItems; p += kRanks) blocks.insert(order(p) / kBlock);
      touched += blocks.size();
    }
    return static_cast<double>(touched) / (double{kItems} / kBlock);
  };
  CHECK(blocks_touched(kRanks) < 1.6);  // the last one to two windows are shared
  CHECK(blocks_touched(1) > 5);
}

TEST_CASE("The quality of a shuffle tells none, block and full apart", "[order]") {
  const auto quality = [](LoaderOptions options) {
    EpochOrder order = order_of(options, {100'000});
    order.begin(1, 0, 1);
    return order.quality(64);
  };
  CHECK(quality({.shuffle = Shuffle::kNone}) < 0.05);
  CHECK(std::abs(quality({.shuffle = Shuffle::kFull}) - 1) < 0.05);
  const double coarse = quality({.shuffle = Shuffle::kBlock, .block_size = 64, .block_window = 4});
  const double fine = quality({.shuffle = Shuffle::kBlock, .block_size = 64, .block_window = 64});
  CHECK(coarse < 0.1);
  CHECK(fine > 0.5);
  CHECK(fine < 0.9);
}

TEST_CASE("Subset and repeat: the samples named, each as often as asked", "[order]") {
  EpochOrder order =
      order_of({.shuffle = Shuffle::kFull, .subset = {5, 900, 17, 5}, .repeat = 3}, {1000});
  REQUIRE(order.positions() == 12);
  std::map<std::uint64_t, int> counts;
  for (const std::uint64_t sample : samples_of(order, 1, 0)) ++counts[sample];
  CHECK(counts == std::map<std::uint64_t, int>{{5, 6}, {900, 3}, {17, 3}});
  CHECK(samples_of(order, 1, 0) != samples_of(order, 1, 1));
  EpochOrder plain = order_of({.subset = {5, 900, 17}}, {1000});
  CHECK(samples_of(plain, 1, 0) == std::vector<std::uint64_t>{5, 900, 17});
  CHECK_THROWS_AS(order_of({.subset = {1000}}, {1000}), Error);
}

TEST_CASE("Weights are kept, with replacement, and other ones in every epoch", "[order]") {
  LoaderOptions options{.weights = {1, 0, 2, 5, 0.5, 1.5}, .samples_per_epoch = 100'000};
  EpochOrder order = order_of(options, {6});
  REQUIRE(order.positions() == 100'000);
  std::vector<double> counts(6);
  for (const std::uint64_t sample : samples_of(order, 1, 0)) ++counts[sample];
  for (std::size_t i = 0; i < 6; ++i) {
    const double expected = options.weights[i] / 10 * 100'000;
    CHECK(std::abs(counts[i] - expected) <= 5 * std::sqrt(expected));
  }
  CHECK(counts[1] == 0);
  CHECK(samples_of(order, 1, 0) == samples_of(order, 1, 0));
  CHECK(samples_of(order, 1, 0) != samples_of(order, 1, 1));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::vector<double>& bad :
       std::vector<std::vector<double>>{{1, 2}, {0, 0, 0}, {1, -1, 1}, {1, nan, 1}}) {
    CHECK_THROWS_AS(order_of({.weights = bad}, {3}), Error);
  }
}

TEST_CASE("Weights reach beyond 2^24 samples", "[order]") {
  constexpr std::uint64_t kMany = (1 << 24) + 1000;
  std::vector<double> weights(kMany, 0.0);
  weights[kMany - 1] = 1;
  weights[kMany - 2] = 1;
  EpochOrder order = order_of({.weights = weights, .samples_per_epoch = 1000}, {kMany});
  std::map<std::uint64_t, int> counts;
  for (const std::uint64_t sample : samples_of(order, 1, 0)) ++counts[sample];
  REQUIRE(counts.size() == 2);
  CHECK(std::abs(counts[kMany - 1] - 500) < 100);
}

TEST_CASE("A mixture keeps its shares and goes through each dataset before repeating it",
          "[order]") {
  for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kFull, Shuffle::kBlock}) {
    EpochOrder order =
        order_of({.shuffle = shuffle, .samples_per_epoch = 3000}, {1000, 50, 7}, {0.7, 0.2, 0.1});
    std::map<std::uint64_t, int> counts;
    std::vector<double> shares(3);
    for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
      for (const std::uint64_t sample : samples_of(order, 4, epoch)) {
        ++counts[sample];
        ++shares[sample < 1000 ? 0 : sample < 1050 ? 1 : 2];
      }
    }
    REQUIRE(counts.size() == 1057);
    CHECK(std::abs(shares[0] / 60'000 - 0.7) < 0.01);
    CHECK(std::abs(shares[1] / 60'000 - 0.2) < 0.01);
    CHECK(std::abs(shares[2] / 60'000 - 0.1) < 0.01);
    // 42 passes over the first dataset: whole ones, but for the few that a cycle still mixes.
    const auto [least, most] = std::minmax_element(
        counts.begin(), counts.find(1000), [](auto& a, auto& b) { return a.second < b.second; });
    CHECK(most->second - least->second <= 4);
  }
}

TEST_CASE("Ranks share an epoch: pad, drop and exact", "[order]") {
  const auto schedule = [](std::uint64_t rank, Uneven uneven, bool drop_last) {
    return Schedule{.total = 103,
                    .cursor = 0,
                    .rank = rank,
                    .world_size = 4,
                    .batch_size = 8,
                    .uneven = uneven,
                    .drop_last = drop_last};
  };
  for (std::uint64_t rank = 0; rank < 4; ++rank) {
    CHECK(schedule(rank, Uneven::kPad, false).rows() == 26);
    CHECK(schedule(rank, Uneven::kPad, false).batches() == 4);
    CHECK(schedule(rank, Uneven::kDrop, false).rows() == 25);
    CHECK(schedule(rank, Uneven::kDrop, false).batches() == 4);
    CHECK(schedule(rank, Uneven::kDrop, true).batches() == 3);
    CHECK(schedule(rank, Uneven::kExact, false).rows() == (rank < 3 ? 26 : 25));
  }
}

TEST_CASE("From any cursor, any ranks and batch size visit the rest once", "[order]") {
  Random random(9, 0, 0);
  for (int trial = 0; trial < 500; ++trial) {
    const std::uint64_t total = 1 + random.below(500);
    std::uint64_t cursor = 0;
    std::vector<int> visits(total, 0);
    std::uint64_t padding = 0;
    while (cursor < total) {  // a run that is broken off and resumed by other ranks
      const std::uint64_t world = 1 + random.below(9);
      const std::uint64_t batch_size = 1 + random.below(20);
      Schedule schedule{.total = total,
                        .cursor = cursor,
                        .rank = 0,
                        .world_size = world,
                        .batch_size = batch_size,
                        .uneven = Uneven::kPad};
      const std::uint64_t stop = 1 + random.below(schedule.batches());
      for (schedule.rank = 0; schedule.rank < world; ++schedule.rank) {
        for (std::uint64_t batch = 0; batch < stop; ++batch) {
          for (std::uint64_t row = 0; row < schedule.rows_of(batch); ++row) {
            const std::uint64_t position = schedule.position(batch, row);
            if (position < total) {
              ++visits[position];
            } else {
              ++padding;
            }
          }
        }
      }
      cursor = schedule.cursor_after(stop);
    }
    REQUIRE(std::all_of(visits.begin(), visits.end(), [](int n) { return n == 1; }));
    REQUIRE(padding < 9);
  }
}
