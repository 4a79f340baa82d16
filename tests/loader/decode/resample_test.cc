// SPDX-License-Identifier: Apache-2.0
#include "loader/decode/internal/resample.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "loader/decode/internal/blend.h"
#include "loader/decode/internal/exact_kernels.h"
#include "loader/decode/internal/exif.h"
#include "tests/loader/decode/make_images.h"
#include "tests/support/catch.h"

using namespace shardmill;
using namespace shardmill::internal;

TEST_CASE("Every blend kernel equals the portable one", "[decode]") {
  const std::vector<std::uint8_t> pixels = test::texture(512, 16, 7);
  for (const std::size_t count : {2U, 4U, 6U, 14U}) {
    std::vector<const std::uint8_t*> rows;
    std::vector<std::int16_t> weights(count, 0);
    int left = 1 << kWeightBits;
    for (std::size_t k = 0; k < count; ++k) {
      rows.push_back(&pixels[k * 512 + k]);
      const int weight = k + 1 == count ? left : left / 3;
      weights[k] = static_cast<std::int16_t>(weight);
      left -= weight;
    }
    for (const std::size_t width : {1U, 15U, 16U, 17U, 224U, 333U}) {
      std::vector<std::uint8_t> want(width + kBufferPadding), got(width + kBufferPadding);
      blend_rows_portable(rows.data(), weights.data(), count, want.data(), width);
      best_blend_rows()(rows.data(), weights.data(), count, got.data(), width);
      CHECK(std::memcmp(want.data(), got.data(), width) == 0);
      double sum = 0;
      for (std::size_t k = 0; k < count; ++k) sum += weights[k] * rows[k][0];
      CHECK(std::abs(sum / (1 << kWeightBits) - want[0]) <= 0.5);
    }
  }
}

TEST_CASE("Every exact kernel equals the portable one", "[decode]") {
  const std::vector<std::uint8_t> pixels = test::texture(512, 16, 7);
  const ExactKernels& want = portable_exact_kernels();
  const ExactKernels& got = best_exact_kernels();
  for (const std::size_t outputs : {1U, 2U, 7U, 8U, 9U, 100U}) {
    std::vector<std::uint32_t> first, count;
    std::vector<std::int32_t> weights;
    for (std::uint32_t i = 0; i < outputs; ++i) {
      first.push_back(3 * i);
      count.push_back(1 + i % 5);
      for (std::uint32_t k = 0; k < 5; ++k) {
        weights.push_back(static_cast<std::int32_t>((1U << kExactBits) / count.back()) + (i == 7));
      }
    }
    const ExactTaps taps{first.data(), count.data(), weights.data(), 5};
    std::vector<std::uint8_t> a(outputs * 4 + kBufferPadding), b(a.size());
    want.columns_3(pixels.data(), taps, outputs, a.data());
    got.columns_3(pixels.data(), taps, outputs, b.data());
    CHECK(std::memcmp(a.data(), b.data(), outputs * 3) == 0);
    want.columns_4(pixels.data(), taps, outputs, a.data());
    got.columns_4(pixels.data(), taps, outputs, b.data());
    CHECK(std::memcmp(a.data(), b.data(), outputs * 4) == 0);
    constexpr std::int32_t kOfRows[] = {1 << (kExactBits - 2), 1 << (kExactBits - 1),
                                        (1 << (kExactBits - 2)) + 3};
    want.rows(pixels.data(), 512, kOfRows, 3, outputs, a.data());
    got.rows(pixels.data(), 512, kOfRows, 3, outputs, b.data());
    CHECK(std::memcmp(a.data(), b.data(), outputs) == 0);
  }
}

TEST_CASE("The weights of an output sample sum to one and lie inside", "[decode]") {
  Taps taps;
  for (const std::uint32_t size : {1U, 2U, 7U, 100U, 501U}) {
    for (const std::uint32_t count : {1U, 3U, 224U}) {
      for (const double blur : {0.0, 1.0}) {
        taps.compute(size, 0, size, count, blur);
        REQUIRE(taps.per_output() % 2 == 0);
        REQUIRE(taps.end() <= size);
        for (std::uint32_t i = 0; i < count; ++i) {
          int sum = 0;
          REQUIRE(taps.count(i) <= taps.per_output());
          REQUIRE(taps.count(i) % 2 == 0);
          for (std::size_t k = 0; k < taps.count(i); ++k) {
            REQUIRE(taps.weights(i)[k] >= 0);
            sum += taps.weights(i)[k];
            if (taps.weights(i)[k] != 0) REQUIRE(taps.first(i) + k < taps.end());
          }
          REQUIRE(sum == 1 << kWeightBits);
        }
      }
    }
  }
}

TEST_CASE("cover_box is centred and has the proportions of the target", "[decode]") {
  const Box wide = cover_box({500, 375}, {224, 224});
  CHECK(wide.left == Approx(62.5));
  CHECK(wide.right == Approx(437.5));
  CHECK(wide.top == 0);
  CHECK(wide.bottom == 375);
  const Box tall = cover_box({100, 400}, {50, 100});
  CHECK(tall.top == 100);
  CHECK(tall.bottom == 300);
  CHECK(tall.left == 0);
  for (std::uint32_t width = 1; width < 600; width += 7) {
    const Box box = cover_box({width, 331}, {224, 192});
    CHECK(box.left >= 0);
    CHECK(box.top >= 0);
    CHECK(box.right <= width);
    CHECK(box.bottom <= 331);
  }
}

TEST_CASE("A flat image stays flat at every size", "[decode]") {
  std::vector<std::uint8_t> flat(50 * 40 * 4 + kBufferPadding, 201);
  ExactResampler exact;
  FastResampler fast;
  for (const Size target : {Size{7, 5}, {50, 40}, {131, 99}}) {
    const Box box = cover_box({50, 40}, target);
    for (const std::size_t channels : {3U, 4U}) {
      std::uint32_t rows = 0;
      exact.resize(flat.data(), channels, {50, 40}, box, target,
                   [&](std::uint32_t y, const std::uint8_t* row) {
                     REQUIRE(y == rows++);
                     for (std::size_t i = 0; i < target.width * channels; ++i)
                       REQUIRE(row[i] == 201);
                   });
      CHECK(rows == target.height);
    }
    Planes planes;
    planes.planes[0] = {flat.data(), 50, 50, 40};
    for (std::uint32_t orientation = 1; orientation <= 8; ++orientation) {
      const Planes small = fast.resize(planes, box, oriented(target, orientation), orientation);
      for (std::uint32_t y = 0; y < small.planes[0].height; ++y) {
        for (std::uint32_t x = 0; x < small.planes[0].width; ++x) {
          REQUIRE(small.planes[0].data[y * small.planes[0].stride + x] == 201);
        }
      }
    }
  }
}
