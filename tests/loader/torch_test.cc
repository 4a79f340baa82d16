// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>
#include <shardmill/loader/torch/tensors.h>

#include <cstring>

#include "tests/loader/decode/make_images.h"
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

TEST_CASE("Sizes, masks, lists and tokens become tensors that borrow the batch", "[torch]") {
  TemporaryFolder folder;
  const auto writer = find_format("tar").create(folder / "data.tar", {});
  const ArrayType type[] = {{DType::kUInt16, {0}}, {DType::kUInt16, {1}}, {DType::kUInt16, {2}}};
  const std::uint16_t tokens[] = {65'535, 7};
  for (std::size_t number = 0; number < 3; ++number) {
    Sample sample("s" + std::to_string(number));
    sample.add("npy", std::as_bytes(std::span(tokens).first(number)), &type[number]);
    if (number != 1) sample.add("txt", std::string(number, 'x'));
    writer->write(sample.view());
  }
  writer->close();
  for (const int workers : {0, 2}) {
    LoaderOptions with = options(workers);
    with.batch_size = 3;
    with.outputs = {padded_tokens_output("most", "npy", 5, {.value = -1}),
                    padded_tokens_output("longest", "npy", 9, {.multiple = 3}, DType::kInt32),
                    ragged_tokens_output("ragged", "npy", DType::kInt32),
                    optional_output(list_output("list", "txt"))};
    std::map<std::string, at::Tensor> tensors;
    {
      Loader loader((folder / "data.tar").string(), with);
      Batch batch;
      REQUIRE(loader.next(batch));
      CHECK(to_ragged_tensor(batch, "list").lengths.data_ptr() == batch["list"].lengths.data());
      tensors = to_tensors(batch);
      CHECK(tensors["most.sizes"].data_ptr() == batch["most"].sizes.data());
    }  // the tensors alone hold the memory now
    CHECK(tensors.size() == 10);
    CHECK(at::equal(
        tensors["most"],
        at::tensor({-1, -1, -1, -1, -1, 65'535, -1, -1, -1, -1, 65'535, 7, -1, -1, -1}, at::kLong)
            .view({3, 5})));
    CHECK(at::equal(tensors["most.sizes"], at::tensor({0, 1, 2}, at::kLong).view({3, 1})));
    CHECK(at::equal(tensors["longest"],
                    at::tensor({0, 0, 0, 65'535, 0, 0, 65'535, 7, 0}, at::kInt).view({3, 3})));
    CHECK(at::equal(tensors["ragged.values"], at::tensor({65'535, 65'535, 7}, at::kInt)));
    CHECK(at::equal(tensors["ragged.offsets"], at::tensor({0, 0, 1, 3}, at::kLong)));
    CHECK(at::equal(tensors["list.lengths"], at::tensor({0, 0, 2}, at::kLong)));
    CHECK(tensors["list.offsets"].sizes() == at::IntArrayRef({3}));
    CHECK(tensors["list.values"][tensors["list.offsets"][2].item<std::int64_t>()]
              .item<std::uint8_t>() == 'x');
    CHECK(tensors["list.present"].scalar_type() == at::kBool);
    CHECK(at::equal(tensors["list.present"], at::tensor({1, 0, 1}, at::kInt).to(at::kBool)));
  }
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

TEST_CASE("Images of any form become tensors of its type and shape", "[torch]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  {
    const auto writer = find_format("tar").create(path, {});
    for (int number = 0; number < 8; ++number) {
      Sample sample("s" + std::to_string(number));
      sample.add("png", make_png(40, 30, static_cast<unsigned>(number)));
      writer->write(sample.view());
    }
    writer->close();
  }
  PixelForm grey;
  grey.channels = Channels::kGrey;
  PixelForm rgba;
  rgba.channels = Channels::kRgba;
  rgba.channels_first = true;
  LoaderOptions options;
  options.outputs = {image_output("plain", 24, 16),
                     with_pixels(image_output("float", 24, 16), imagenet_form()),
                     with_pixels(image_output("half", 24, 16), imagenet_form(DType::kFloat16)),
                     with_pixels(image_output("grey", 24, 16), grey),
                     with_pixels(fitted_image_output("rgba", 24, 24, Fit::kLetterbox), rgba)};
  options.batch_size = 8;
  for (const int workers : {0, 1, 4}) {
    options.num_workers = workers;
    Loader loader(path, options);
    Batch batch;
    REQUIRE(loader.next(batch));
    const auto tensors = to_tensors(batch);
    const at::Tensor& plain = tensors.at("plain");
    const at::Tensor& normalised = tensors.at("float");
    CHECK(plain.sizes() == at::IntArrayRef({8, 16, 24, 3}));
    CHECK(plain.scalar_type() == at::kByte);
    CHECK(normalised.sizes() == at::IntArrayRef({8, 3, 16, 24}));
    CHECK(normalised.scalar_type() == at::kFloat);
    CHECK(tensors.at("half").sizes() == at::IntArrayRef({8, 3, 16, 24}));
    CHECK(tensors.at("half").scalar_type() == at::kHalf);
    CHECK(tensors.at("grey").sizes() == at::IntArrayRef({8, 16, 24, 1}));
    CHECK(tensors.at("grey").scalar_type() == at::kByte);
    CHECK(tensors.at("rgba").sizes() == at::IntArrayRef({8, 4, 24, 24}));
    CHECK(tensors.at("rgba").select(1, 3).min().item<int>() == 255);
    const at::Tensor mean = torch::tensor({0.485F, 0.456F, 0.406F}).view({3, 1, 1});
    const at::Tensor std = torch::tensor({0.229F, 0.224F, 0.225F}).view({3, 1, 1});
    const at::Tensor want = (plain.permute({0, 3, 1, 2}).to(at::kFloat) / 255 - mean) / std;
    CHECK(torch::allclose(normalised, want, 1e-5, 1e-5));
    CHECK(torch::equal(tensors.at("half"), normalised.to(at::kHalf)));
  }
}
