// SPDX-License-Identifier: Apache-2.0
//
// The training loop of README, as a program: quickstart DATASET. See train.cc for a whole one.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

// [readme]
#include <shardmill/loader/torch/tensors.h>  // link shardmill::torch; loader alone: loader/loader.h

void train(const std::string& dataset, const auto& step) {
  using namespace shardmill;
  Loader loader(dataset, {.outputs = {image_output("image", 224, 224), class_output("label")},
                          .batch_size = 64,
                          .shuffle = Shuffle::kFull});
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch)
    for (Batch& batch : loader.epoch(epoch))  // uint8 N x 224 x 224 x 3, borrowed, not copied
      step(to_tensor(batch, "image"), to_tensor(batch, "label"));
}
// [readme]

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: quickstart DATASET\n");
    return 2;
  }
  try {
    std::int64_t images_seen = 0;
    train(argv[1], [&](const at::Tensor& images, const at::Tensor& labels) {
      images_seen += images.size(0) == labels.size(0) ? images.size(0) : 0;
    });
    std::printf("%lld images\n", static_cast<long long>(images_seen));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "quickstart: %s\n", error.what());
    return 1;
  }
}
