// SPDX-License-Identifier: Apache-2.0
//
// Trains a small network on the images of a dataset: what a training program with shardmill looks
// like. Copy it and put your own network in.
//
//   train DATASET [--epochs=3] [--batch-size=64] [--num-workers=auto] [--image-size=64] [--seed=1]
#include <shardmill/loader/loader.h>
#include <shardmill/loader/torch/device_loader.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

struct Arguments {
  std::string dataset;
  std::uint64_t epochs = 3;
  std::size_t batch_size = 64;
  int num_workers = shardmill::kAuto;
  std::uint32_t image_size = 64;
  std::uint64_t seed = 1;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    if (!word.starts_with("--")) {
      arguments.dataset = word;
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const std::string value = equals != std::string_view::npos
                                  ? std::string(word.substr(equals + 1))
                              : i + 1 < argc ? argv[++i]
                                             : "";
    if (name == "--num-workers" && value == "auto") continue;
    if (name == "--help") throw std::invalid_argument("trains a small network on DATASET");
    if (value.empty() || value.find_first_not_of("0123456789") != std::string::npos) {
      throw std::invalid_argument("\"" + value + "\" is not a number for " + std::string(name));
    }
    const unsigned long number = std::stoul(value);
    if (name == "--epochs")
      arguments.epochs = number;
    else if (name == "--batch-size")
      arguments.batch_size = number;
    else if (name == "--num-workers")
      arguments.num_workers = static_cast<int>(number);
    else if (name == "--image-size")
      arguments.image_size = static_cast<std::uint32_t>(number);
    else if (name == "--seed")
      arguments.seed = number;
    else
      throw std::invalid_argument("unknown option " + std::string(name));
  }
  if (arguments.dataset.empty()) throw std::invalid_argument("no dataset is given");
  return arguments;
}

// Four convolutions that halve the image, a mean over what is left, a linear layer.
torch::nn::Sequential make_network(std::int64_t classes) {
  torch::nn::Sequential network;
  std::int64_t channels = 3;
  for (const std::int64_t next : {16, 32, 64, 64}) {
    network->push_back(
        torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, next, 3).stride(2).padding(1)));
    network->push_back(torch::nn::BatchNorm2d(next));
    network->push_back(torch::nn::ReLU());
    channels = next;
  }
  network->push_back(torch::nn::AdaptiveAvgPool2d(1));
  network->push_back(torch::nn::Flatten());
  network->push_back(torch::nn::Linear(channels, classes));
  return network;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void train(const Arguments& arguments) {
  // The loader first: its processes are forked before LibTorch starts threads.
  shardmill::LoaderOptions options;
  options.outputs = {shardmill::image_output("image", arguments.image_size, arguments.image_size),
                     shardmill::class_output("label")};
  options.batch_size = arguments.batch_size;
  options.shuffle = shardmill::Shuffle::kFull;
  options.seed = arguments.seed;
  options.num_workers = arguments.num_workers;
  options.pin_memory = torch::cuda::is_available();
  shardmill::Loader loader(arguments.dataset, options);

  torch::manual_seed(arguments.seed);
  const torch::Device device(torch::cuda::is_available() ? torch::kCUDA : torch::kCPU);
  const auto classes = static_cast<std::int64_t>(loader.dataset().classes().size());
  if (classes < 2) throw std::invalid_argument("the dataset names fewer than two classes");
  torch::nn::Sequential network = make_network(classes);
  network->to(device);
  torch::optim::AdamW optimizer(network->parameters(), torch::optim::AdamWOptions(2e-3));
  std::printf("%llu samples, %lld classes, %d workers, on %s\n",
              static_cast<unsigned long long>(loader.dataset().size()),
              static_cast<long long>(classes), loader.options().num_workers, device.str().c_str());

  shardmill::DeviceLoader batches(loader, device);
  for (std::uint64_t epoch = 0; epoch < arguments.epochs; ++epoch) {
    const auto begin = std::chrono::steady_clock::now();
    const std::uint64_t waited_before = loader.stats().wait_ns;
    double loss_sum = 0;
    std::int64_t right = 0;
    std::int64_t seen = 0;
    batches.start_epoch(epoch);
    for (shardmill::DeviceBatch batch; batches.next(batch);) {
      // On the CPU these tensors are the loader's memory; on a GPU they were copied meanwhile.
      const torch::Tensor labels = batch["label"];
      const torch::Tensor images =
          batch["image"].permute({0, 3, 1, 2}).to(torch::kFloat).sub_(127.5).div_(64);
      optimizer.zero_grad();
      const torch::Tensor scores = network->forward(images);
      const torch::Tensor loss = torch::nn::functional::cross_entropy(scores, labels);
      loss.backward();
      optimizer.step();
      if (batch.index % 10 == 0) {
        std::printf("epoch %llu batch %llu loss %.9g\n", static_cast<unsigned long long>(epoch),
                    static_cast<unsigned long long>(batch.index), loss.item<double>());
      }
      const auto rows = static_cast<std::int64_t>(batch.size());
      loss_sum += loss.item<double>() * static_cast<double>(rows);
      right += scores.argmax(1).eq(labels).sum().item<std::int64_t>();
      seen += rows;
    }
    const double seconds = seconds_since(begin);
    const auto waited = static_cast<double>(loader.stats().wait_ns - waited_before) * 1e-9;
    std::printf("epoch %llu: loss %.9g, accuracy %.3f (chance %.3f)\n",
                static_cast<unsigned long long>(epoch), loss_sum / static_cast<double>(seen),
                static_cast<double>(right) / static_cast<double>(seen),
                1.0 / static_cast<double>(classes));
    std::printf("epoch %llu: %.0f images/s, %.0f %% of the time spent waiting for data\n",
                static_cast<unsigned long long>(epoch), static_cast<double>(seen) / seconds,
                100 * waited / seconds);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(parse(argc, argv));
    return 0;
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr,
                 "train: %s\nusage: train DATASET [--epochs=3] [--batch-size=64] "
                 "[--num-workers=auto] [--image-size=64] [--seed=1]\n",
                 error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    return 1;
  }
}
