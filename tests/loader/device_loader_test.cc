// SPDX-License-Identifier: Apache-2.0
// Copies to a device, against a stand-in whose copies end when the test says so.
#include <shardmill/formats/error.h>
#include <shardmill/loader/loader.h>
#include <shardmill/loader/torch/device_loader.h>
#include <shardmill/loader/torch/tensors.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include <set>
#include <thread>

#include "loader/torch/internal/copy_engine.h"
#include "tests/loader/loader_test_data.h"
#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

// What happened on the stand-in, in order; copies happen when their mark is let through.
struct Log {
  std::vector<std::string> events;
  std::vector<std::pair<at::Tensor, at::Tensor>> begun;  // host, copy
  int marks = 0;
  int ended = 0;

  void end_copies() {
    for (auto& [host, copy] : begun) copy.copy_(host);
    begun.clear();
    ended = marks;
  }
};

class StandIn : public internal::CopyEngine {
 public:
  explicit StandIn(Log& log) : log_(log) {}
  at::Tensor copy(const at::Tensor& host) override {
    if (log_.events.empty() || log_.events.back() != "copy") log_.events.push_back("copy");
    log_.begun.emplace_back(host, at::zeros_like(host));
    return log_.begun.back().second;
  }
  std::function<bool()> mark() override {
    log_.events.push_back("mark " + std::to_string(++log_.marks));
    return [this, number = log_.marks] { return log_.ended >= number; };
  }
  void hand_over(const std::vector<at::Tensor>& copies) override {
    log_.events.push_back("hand over " + std::to_string(copies.size()));
  }

 private:
  Log& log_;
};

LoaderOptions options(int workers) {
  LoaderOptions options;
  options.outputs = {class_output(), bytes_output("data", "bin"), array_output("array", "npy")};
  options.batch_size = 10;
  options.shuffle = Shuffle::kFull;
  options.seed = 2;
  options.num_workers = workers;
  options.lease_timeout_ms = 100;
  return options;
}

void wait_until_ready(const Loader& loader) {
  while (!loader.ready()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

TEST_CASE("The next batch is on its way before the present one is used", "[device]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 60);
  Loader loader((folder / "data.tar").string(), options(2));
  Log log;
  DeviceLoader batches(loader, std::make_unique<StandIn>(log));
  wait_until_ready(loader);
  DeviceBatch batch;
  loader.start_epoch(0);
  REQUIRE(batches.next(batch));
  wait_until_ready(loader);
  REQUIRE(batches.next(batch));
  // label, array, and the two tensors of the bytes
  const std::vector<std::string> expected = {"copy", "mark 1", "hand over 4",
                                             "copy", "mark 2", "hand over 4"};
  std::vector<std::string> handed = log.events;
  // Whether the second batch was ready at the first next() is a matter of time; its copy is begun
  // before it is handed over in any case, and the third one's follows.
  handed.resize(std::min<std::size_t>(handed.size(), 6));
  CHECK(handed == expected);
  CHECK(batch.index == 1);
}

TEST_CASE("Batches on the device are the loader's, in order, with keys and state", "[device]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 63);
  const std::string path = (folder / "data.tar").string();
  for (const int workers : {0, 2}) {
    Loader reference(path, options(0));
    Loader loader(path, options(workers));
    Log log;
    DeviceLoader batches(loader, std::make_unique<StandIn>(log));
    for (const std::uint64_t epoch : {0, 3}) {
      batches.start_epoch(epoch);
      DeviceBatch batch;
      for (const Batch& expected : reference.epoch(epoch)) {
        REQUIRE(batches.next(batch));
        log.end_copies();
        CHECK(batches.state() == reference.state());
        REQUIRE(batch.size() == expected.size());
        for (std::size_t row = 0; row < batch.size(); ++row) {
          CHECK(batch.samples[row] == expected.samples()[row]);
          CHECK(batch.keys[row] == expected.keys()[row]);
        }
        CHECK(at::equal(batch["label"], to_tensor(expected, "label")));
        CHECK(at::equal(batch["array"], to_tensor(expected, "array")));
        CHECK(at::equal(batch["data.values"], to_ragged_tensor(expected, "data").values));
      }
      REQUIRE_FALSE(batches.next(batch));
    }
    CHECK_THROWS_WITH(DeviceBatch()["label"], Catch::Contains("no tensor \"label\""));
  }
}

TEST_CASE("A slot is used again only when its copy has ended", "[device]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 2000);
  for (const int workers : {0, 2}) {
    Loader loader((folder / "data.tar").string(), options(workers));
    Log log;
    DeviceLoader batches(loader, std::make_unique<StandIn>(log));
    std::set<void*> used;
    DeviceBatch batch;
    std::string message;
    try {
      while (batches.next(batch)) {
        batch = DeviceBatch();
      }
    } catch (const Error& error) {
      message = error.what();
    }
    // No copy ever ended: all slots stay lent, though nobody holds a batch.
    CHECK(message.find("lease_timeout_ms") != std::string::npos);
    for (const auto& [host, copy] : log.begun) {
      CHECK((host.numel() == 0 || used.insert(host.data_ptr()).second));
    }
    log.end_copies();
    CHECK(batches.next(batch));
  }
}

TEST_CASE("Early breaks and the end come while copies are on their way", "[device]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 100);
  Loader loader((folder / "data.tar").string(), options(2));
  Log log;
  {
    DeviceLoader batches(loader, std::make_unique<StandIn>(log));
    for (std::uint64_t epoch = 0; epoch < 50; ++epoch) {
      batches.start_epoch(epoch);
      DeviceBatch batch;
      for (std::uint64_t i = 0; i <= epoch % 4; ++i) {
        REQUIRE(batches.next(batch));
        REQUIRE(batch.epoch == epoch);
        REQUIRE(batch.index == i);
      }
      log.end_copies();
    }
    DeviceBatch batch;
    batches.next(batch);
  }
  log.end_copies();
  CHECK(load_all(loader, {1}).size() == 10);
}

TEST_CASE("On the CPU the tensors are the loader's own", "[device]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 40);
  Loader loader((folder / "data.tar").string(), options(1));
  DeviceLoader batches(loader, at::kCPU);
  DeviceBatch batch;
  std::size_t rows = 0;
  while (batches.next(batch)) {
    CHECK(batch["label"].device().is_cpu());
    rows += batch.size();
  }
  CHECK(rows == 40);
}

TEST_CASE("On a GPU: page-locked, overlapped, identical", "[device][gpu]") {
  if (!torch::cuda::is_available()) {
    std::puts("no GPU: not run");
    return;
  }
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 500);
  const std::string path = (folder / "data.tar").string();
  at::zeros({1}, at::kCUDA);  // CUDA is there before the loader
  LoaderOptions with = options(2);
  with.pin_memory = true;
  with.lease_timeout_ms = 10'000;
  Loader loader(path, with);
  Loader reference(path, options(0));
  DeviceLoader batches(loader, at::kCUDA);
  for (const std::uint64_t epoch : {0, 1, 2}) {
    batches.start_epoch(epoch);
    DeviceBatch batch;
    for (const Batch& expected : reference.epoch(epoch)) {
      REQUIRE(batches.next(batch));
      CHECK(batch["array"].is_cuda());
      CHECK(at::equal(batch["array"].cpu(), to_tensor(expected, "array")));
    }
  }
  Batch host;
  REQUIRE(loader.next(host) == false);
  loader.start_epoch(5);
  REQUIRE(loader.next(host));
  CHECK(to_tensor(host, "array").is_pinned());
}
