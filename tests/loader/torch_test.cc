// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <shardmill/formats/error.h>
#include <shardmill/loader/torch/tensors.h>

#include <cstring>

#include "tests/loader/loader_test_data.h"
#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

LoaderOptions options(int workers) {
  LoaderOptions options;
  options.outputs = {class_output(), array_output("array", "npy"), bytes_output("data", "bin"),
                     random_output()};
  options.batch_size = 16;
  options.seed = 3;
  options.num_workers = workers;
  options.prefetch = workers == 0 ? kAuto : 1;
  options.lease_timeout_ms = 100;
  return options;
}

}  // namespace

TEST_CASE("Tensors borrow the batch's memory and keep it lent", "[torch]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 200);
  for (const int workers : {0, 2}) {
    at::Tensor view;
    {
      Loader loader((folder / "data.tar").string(), options(workers));
      Batch batch;
      REQUIRE(loader.next(batch));
      at::Tensor array = to_tensor(batch, "array");
      CHECK(array.data_ptr() == batch["array"].data.data());
      CHECK(array.sizes() == at::IntArrayRef({16, 2, 3}));
      CHECK(array.scalar_type() == at::kFloat);
      CHECK(array[5][1][2].item<float>() == 5.625f);
      const at::Tensor labels = to_tensor(batch, "label");
      CHECK(labels.sizes() == at::IntArrayRef({16}));
      CHECK(labels[13].item<std::int64_t>() == 3);
      view = array.permute({2, 0, 1}).select(0, 2);
      // The view alone now holds the slot: batches that come later must not touch it.
      array = at::Tensor();
      while (loader.next(batch)) {
      }
      CHECK(view[5][1].item<float>() == 5.625f);
    }
    CHECK(view[15][0].item<float>() == 15.25f);  // the loader is gone
  }
}

TEST_CASE("A ragged output becomes values and offsets", "[torch]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 16);
  Loader loader((folder / "data.tar").string(), options(1));
  Batch batch;
  REQUIRE(loader.next(batch));
  const RaggedTensor data = to_ragged_tensor(batch, "data");
  CHECK(data.offsets.sizes() == at::IntArrayRef({17}));
  CHECK(data.values.scalar_type() == at::kByte);
  CHECK(data.offsets[16].item<std::int64_t>() == data.values.numel());
  CHECK(data.values[data.offsets[2].item<std::int64_t>()].item<std::uint8_t>() == 'c');
  CHECK_THROWS_WITH(to_tensor(batch, "data"), Catch::Contains("to_ragged_tensor"));
  CHECK_THROWS_WITH(to_ragged_tensor(batch, "label"), Catch::Contains("to_tensor"));
  CHECK_THROWS_WITH(to_tensor(batch, "random"), Catch::Contains("uint64"));
  CHECK_THROWS_WITH(to_tensor(batch, "nothing"), Catch::Contains("no output \"nothing\""));
}

TEST_CASE("A worker may use LibTorch although the trainer has used its threads", "[torch]") {
  // Row 26 of the collected faults: the forked child hung in its first parallel sum.
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 16);
  at::set_num_threads(2);
  REQUIRE(at::ones({2000, 2000}).sum().item<float>() == 4e6f);
  LoaderOptions with = options(2);
  with.outputs = {computed_output("sum", {DType::kFloat32, {}}, [](const RowContext& context) {
    const float sum = at::ones({2000, 2000}).sum().item<float>();
    std::memcpy(context.row.data(), &sum, sizeof sum);
  })};
  Loader loader((folder / "data.tar").string(), with);
  Batch batch;
  REQUIRE(loader.next(batch));
  CHECK(to_tensor(batch, "sum").sum().item<float>() == 16 * 4e6f);
  CHECK(at::get_num_threads() == 2);
}
