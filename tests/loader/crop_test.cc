// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>
#include <shardmill/loader/loader.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "loader/internal/random_crop.h"
#include "tests/loader/decode/make_images.h"
#include "tests/loader/loader_test_data.h"
#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill;
using namespace shardmill::internal;
using namespace shardmill::test;

TEST_CASE("Random parts keep area, proportions and bounds, and are spread evenly", "[crop]") {
  const RandomCrop crop;
  double left = 0;
  double area = 0;
  int flips = 0;
  constexpr int kDraws = 20'000;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    Random random(1, 2, i);
    const ImagePart part = random_part(crop, 640, 480, random);
    const double width = part.right - part.left;
    const double height = part.bottom - part.top;
    REQUIRE(part.left >= 0);
    REQUIRE(part.top >= 0);
    REQUIRE(part.right <= 640);
    REQUIRE(part.bottom <= 480);
    REQUIRE(width * height >= 0.075 * 640 * 480);
    REQUIRE(width / height > 0.74);
    REQUIRE(width / height < 1.35);
    left += (part.left + part.right) / 2;
    area += width * height;
    flips += part.flip ? 1 : 0;
  }
  CHECK(std::abs(left / kDraws - 320) < 5);
  CHECK(std::abs(flips - kDraws / 2) < 5 * std::sqrt(kDraws / 4.0));
  CHECK(area / kDraws / (640 * 480) > 0.4);  // large parts of the wrong proportions are redrawn
  CHECK(area / kDraws / (640 * 480) < 0.55);
  // A strip that no allowed part fits into: the centre.
  Random random(1, 2, 3);
  const ImagePart strip = random_part({.min_area = 1, .flip = 0}, 1000, 10, random);
  CHECK(strip.left == Approx(1000 / 2.0 - 10 * 4.0 / 6));
  CHECK(strip.bottom == 10);
}

TEST_CASE("Augmented images depend on the position alone", "[crop]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  {
    const auto writer = find_format("tar").create(path, {});
    for (int number = 0; number < 40; ++number) {
      Sample sample("s" + std::to_string(100 + number));
      sample.add("jpg", make_jpeg(100, 70, 1));  // all the same: what differs is the part
      sample.add("seg.png", make_png(100, 70, 1));
      writer->write(sample.view());
    }
    writer->close();
  }
  LoaderOptions with;
  with.outputs = {random_crop_output("image", 24, 24, {}, "jpg"),
                  random_crop_output("again", 24, 24, {}, "jpg")};
  with.batch_size = 8;
  with.shuffle = Shuffle::kFull;
  with.seed = 4;
  with.num_workers = 0;
  Loader reference(path, with);
  const std::vector<std::string> expected = load_all(reference, {0, 1});
  with.num_workers = 3;
  Loader loader(path, with);
  CHECK(load_all(loader, {0, 1}) == expected);
  std::set<std::string> rows;
  for (const std::uint64_t epoch : {0, 1}) {
    for (const Batch& batch : loader.epoch(epoch)) {
      for (std::size_t row = 0; row < batch.size(); ++row) {
        const auto bytes = batch["image"].data.subspan(row * 1728, 1728);
        const auto again = batch["again"].data.subspan(row * 1728, 1728);
        REQUIRE(std::ranges::equal(bytes, again));  // images of one sample get the same part
        rows.emplace(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        const Batch one = loader.replay(epoch, batch.positions()[row]);
        REQUIRE(std::ranges::equal(one["image"].data, bytes));
      }
    }
  }
  CHECK(rows.size() == 80);  // another part for each sample, and in each epoch
  for (const RandomCrop bad :
       {RandomCrop{.min_area = 0}, RandomCrop{.min_area = 0.5, .max_area = 0.4},
        RandomCrop{.min_ratio = 0}, RandomCrop{.flip = 2}}) {
    with.outputs = {random_crop_output("image", 24, 24, bad)};
    CHECK_THROWS_WITH(Loader(path, with), Catch::Contains("outputs[0].crop"));
  }
}
