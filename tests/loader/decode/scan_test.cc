// SPDX-License-Identifier: Apache-2.0
// Shardmill's own decoder of baseline JPEGs beside libjpeg's.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "loader/decode/internal/inverse_dct.h"
#include "loader/decode/internal/jpeg.h"
#include "tests/loader/decode/make_images.h"
#include "tests/support/catch.h"

using namespace shardmill;
using namespace shardmill::internal;
using namespace shardmill::test;

namespace {

struct Decoded {
  JpegDecoder decoder;
  PixelBuffer buffer;
  Planes planes;
};

bool scan(Decoded& to, const std::string& image, double ratio, const Box& needed,
          bool (*decode)(const Scan&) noexcept = &decode_scan) {
  to.decoder.open(as_bytes(image), {});
  return to.decoder.scan_planes({ratio, ratio, needed}, to.buffer, to.planes, decode);
}

// Sample of a plane at a place of the whole image's plane; -1 if it is not there.
int at(const Plane& plane, std::int64_t x, std::int64_t y) {
  x += std::lround(plane.offset_x);
  y += std::lround(plane.offset_y);
  if (x < 0 || y < 0 || x >= plane.width || y >= plane.height) return -1;
  return plane.data[static_cast<std::size_t>(y) * plane.stride + static_cast<std::size_t>(x)];
}

struct Difference {
  double mean = 0;
  int most = 0;
};

// Compares the samples that a box needs; all must be there.
Difference compare(const Plane& a, const Plane& b, const Box& needed) {
  const auto x0 = static_cast<std::int64_t>(std::floor(needed.left * a.scale_x));
  const auto y0 = static_cast<std::int64_t>(std::floor(needed.top * a.scale_y));
  const auto x1 = static_cast<std::int64_t>(std::ceil(needed.right * a.scale_x));
  const auto y1 = static_cast<std::int64_t>(std::ceil(needed.bottom * a.scale_y));
  Difference difference;
  for (std::int64_t y = y0; y < y1; ++y) {
    for (std::int64_t x = x0; x < x1; ++x) {
      REQUIRE(at(a, x, y) >= 0);
      REQUIRE(at(b, x, y) >= 0);
      const int apart = std::abs(at(a, x, y) - at(b, x, y));
      difference.mean += apart;
      difference.most = std::max(difference.most, apart);
    }
  }
  difference.mean /= static_cast<double>((x1 - x0) * (y1 - y0));
  return difference;
}

std::vector<JpegLook> all_looks() {
  std::vector<JpegLook> looks;
  for (const int across : {1, 2, 4}) {
    for (const int down : {1, 2}) {
      for (const int restart : {0, 3}) {
        for (const bool progressive : {false, true}) {
          looks.push_back(
              {.luma_h = across, .luma_v = down, .progressive = progressive, .restart = restart});
        }
      }
    }
  }
  looks.push_back({.components = 1});
  looks.push_back({.components = 1, .progressive = true});
  looks.push_back({.components = 1, .luma_h = 1, .luma_v = 1, .restart = 5});
  return looks;
}

}  // namespace

TEST_CASE("Every transform equals the portable one", "[decode]") {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    alignas(32) std::int16_t blocks[128];
    const int most = round < 1000 ? 600 : 32767;  // usual, and what only damage brings about
    for (std::int16_t& coefficient : blocks) {
      const bool zero = random() % 3 != 0;
      coefficient = static_cast<std::int16_t>(
          zero ? 0 : static_cast<int>(random() % static_cast<unsigned>(2 * most + 1)) - most);
    }
    std::uint8_t want[8 * 16] = {}, got[8 * 16] = {};
    portable_transforms().to_8(blocks, want, 16);
    best_transforms().to_8(blocks, got, 16);
    REQUIRE(std::memcmp(want, got, sizeof(want)) == 0);
    portable_transforms().to_4(blocks, want, 16);
    best_transforms().to_4(blocks, got, 16);
    REQUIRE(std::memcmp(want, got, sizeof(want)) == 0);
  }
}

TEST_CASE("JPEGs become the same planes as with libjpeg", "[decode]") {
  for (const JpegLook& look : all_looks()) {
    const std::string image = make_jpeg(203, 149, 3, look);
    for (const double ratio : {1.0, 2.0, 4.0, 8.0}) {
      for (const Box& needed : {Box{0, 0, 203, 149}, Box{70, 40, 130, 90}, Box{150, 100, 203, 149},
                                Box{-9, -9, 40, 30}}) {
        CAPTURE(look.luma_h, look.luma_v, look.components, look.progressive, look.restart, ratio,
                needed.left);
        Decoded own, portable, library;
        // With tables for short looks, then, as they come again, for long ones.
        for (int pass = 0; pass < 3; ++pass) REQUIRE(scan(own, image, ratio, needed));
        REQUIRE(scan(portable, image, ratio, needed, &decode_scan_portable));
        library.decoder.open(as_bytes(image), {});
        library.planes = library.decoder.libjpeg_planes({ratio, ratio, needed}, library.buffer);
        REQUIRE(own.planes.count() == library.planes.count());
        const Box inside{std::max(needed.left, 0.0), std::max(needed.top, 0.0), needed.right,
                         needed.bottom};
        for (std::size_t c = 0; c < own.planes.count(); ++c) {
          const Plane& plane = own.planes.planes[c];
          REQUIRE(compare(plane, portable.planes.planes[c], inside).most == 0);
          const Plane& other = library.planes.planes[c];
          if (plane.scale_x != other.scale_x || plane.scale_y != other.scale_y) continue;
          const Difference difference = compare(plane, other, inside);
          if (plane.blur == 0) CHECK(difference.most <= 1);
          CHECK(difference.mean < (plane.blur == 0 ? 0.1 : 4));
        }
      }
    }
  }
}

TEST_CASE("Other JPEGs, and damaged ones, are left to libjpeg", "[decode]") {
  const Box all{0, 0, 120, 90};
  Decoded to;
  CHECK_FALSE(scan(to, make_jpeg(120, 90, 1, {.arithmetic = true}), 1, all));
  for (const bool progressive : {false, true}) {
    const std::string image = make_jpeg(120, 90, 1, {.progressive = progressive, .restart = 4});
    REQUIRE(scan(to, image, 1, all));
    for (std::size_t size = image.size() / 2; size < image.size() - 4; size += 7) {
      CHECK_FALSE(scan(to, image.substr(0, size), 1, all));
      CHECK_FALSE(scan(to, image.substr(0, size) + "\xff\xd9", 1, all));
    }
    std::string swapped = image;  // a restart marker of another number
    const std::size_t marker = swapped.find("\xff\xd2");
    REQUIRE(marker != swapped.npos);
    swapped[marker + 1] = '\xd5';
    CHECK_FALSE(scan(to, swapped, 1, all));
    const std::string more = image.substr(0, image.size() - 2) + "extraneous\xff\xd9";
    CHECK_FALSE(scan(to, more, 1, all));
  }
}
