// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/order.h"

#include <shardmill/loader/random.h>

#include <cmath>
#include <map>
#include <vector>

#include "tests/support/catch.h"

using namespace shardmill;
using shardmill::internal::EpochOrder;

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
    const EpochOrder order(shuffle, 1000, seed, epoch);
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
