// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>
#include <shardmill/loader/loader.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>

#include "loader/internal/device.h"
#include "tests/loader/loader_test_data.h"
#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

LoaderOptions options(int workers, Shuffle shuffle = Shuffle::kFull) {
  LoaderOptions options;
  options.outputs = {class_output(), bytes_output("data", "bin"), array_output("array", "npy"),
                     random_output()};
  options.batch_size = 16;
  options.shuffle = shuffle;
  options.seed = 7;
  options.num_workers = workers;
  return options;
}

}  // namespace

TEST_CASE("Batches are the same for every number of workers", "[loader]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 103);
  for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kFull}) {
    Loader inline_loader((folder / "data.tar").string(), options(0, shuffle));
    const std::vector<std::string> expected = load_all(inline_loader, {0, 1, 5});
    REQUIRE(expected.size() == 21);
    REQUIRE(std::set<std::string>(expected.begin(), expected.end()).size() == 21);
    for (const int workers : {1, 2, 5}) {
      for (const int prefetch : {1, 4}) {
        LoaderOptions with = options(workers, shuffle);
        with.prefetch = prefetch;
        Loader loader((folder / "data.tar").string(), with);
        REQUIRE(load_all(loader, {0, 1, 5}) == expected);
      }
    }
  }
}

TEST_CASE("An epoch visits every sample once, with its own values", "[loader]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 100);
  Loader loader((folder / "data.tar").string(), options(2));
  CHECK(loader.batches_per_epoch() == 7);
  CHECK(loader.samples_per_epoch() == 100);
  std::set<std::uint64_t> seen;
  for (const Batch& batch : loader.epoch(3)) {
    CHECK(batch.epoch() == 3);
    const auto labels = batch["label"].as<std::int64_t>();
    const auto array = batch["array"].as<float>();
    for (std::size_t row = 0; row < batch.size(); ++row) {
      const std::uint64_t number = batch.samples()[row];
      seen.insert(number);
      CHECK(labels[row] == static_cast<std::int64_t>(number % 10));
      CHECK(array[row * 6 + 5] == static_cast<float>(number) + 0.625f);
      const auto value = batch["data"].value(row);
      CHECK(value.size() == (number % 7 == 3 ? 0 : 1 + number * 37 % 5000));
      CHECK(std::all_of(value.begin(), value.end(), [&](std::byte b) {
        return static_cast<char>(b) == static_cast<char>('a' + number % 26);
      }));
    }
  }
  CHECK(seen.size() == 100);
  CHECK_THROWS_AS(Batch()["label"], Error);
}

TEST_CASE("drop_last drops the incomplete batch", "[loader]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 10);
  for (const int workers : {0, 1, 3}) {
    LoaderOptions with = options(workers);
    with.batch_size = 4;
    Loader all((folder / "data.tar").string(), with);
    CHECK(load_all(all, {0}).size() == 3);
    with.drop_last = true;
    Loader dropping((folder / "data.tar").string(), with);
    CHECK(load_all(dropping, {0, 1}).size() == 4);
    CHECK(dropping.samples_per_epoch() == 8);
    with.batch_size = 11;
    Loader nothing((folder / "data.tar").string(), with);
    CHECK(load_all(nothing, {0}).empty());
  }
}

TEST_CASE("Without declared outputs a batch holds every field of the first sample", "[loader]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 5);
  for (const int workers : {0, 2}) {
    LoaderOptions with;
    with.batch_size = 5;
    with.num_workers = workers;
    Loader loader((folder / "data.tar").string(), with);
    REQUIRE(loader.options().outputs.size() == 3);
    Batch batch;
    REQUIRE(loader.next(batch));
    CHECK(batch["npy"].row == ArrayType{DType::kFloat32, {2, 3}});
    CHECK(batch["bin"].ragged);
    CHECK(batch["label"].as<std::int64_t>()[4] == 4);
    CHECK_FALSE(loader.next(batch));
    CHECK_FALSE(batch);
  }
}

TEST_CASE("Random numbers differ between rows, epochs and loaders without seed", "[loader]") {
  // Row 7 of the collected faults: workers drew the same numbers, and the same in each epoch.
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 64);
  const auto draws = [&](LoaderOptions with, std::uint64_t epoch) {
    Loader loader((folder / "data.tar").string(), with);
    std::vector<std::uint64_t> by_sample(64);
    for (const Batch& batch : loader.epoch(epoch)) {
      for (std::size_t row = 0; row < batch.size(); ++row) {
        by_sample[batch.samples()[row]] = batch["random"].as<std::uint64_t>()[row];
      }
    }
    return by_sample;
  };
  const auto first = draws(options(0), 0);
  const auto second = draws(options(0), 1);
  std::set<std::uint64_t> all(first.begin(), first.end());
  CHECK(all.size() == 64);
  all.insert(second.begin(), second.end());
  CHECK(all.size() == 128);
  for (const int workers : {1, 4}) {
    CHECK(draws(options(workers), 0) == first);
    CHECK(draws(options(workers), 1) == second);
  }
  LoaderOptions unseeded = options(1);
  unseeded.seed.reset();
  CHECK(draws(unseeded, 0) != draws(unseeded, 0));
}

TEST_CASE("Breaking out of an epoch and starting again leaks and mixes nothing", "[loader]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 100);
  LoaderOptions with = options(3);
  with.batch_size = 10;
  Loader loader((folder / "data.tar").string(), with);
  const std::vector<std::string> expected = load_all(loader, {1});
  for (std::uint64_t round = 0; round < 100; ++round) {
    int batches = 0;
    for (const Batch& batch : loader.epoch(round % 3 == 0 ? 1 : round)) {
      if (batch && ++batches == 3) break;
    }
    REQUIRE(batches == 3);
  }
  CHECK(load_all(loader, {1}) == expected);
  // The nursery and three workers; on a busy machine the last of them may still have to start.
  for (int wait = 0; wait < 1000 && descendants().size() < 4; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(descendants().size() == 4);
}

TEST_CASE("Batches stay valid while they are held, also after the loader", "[loader]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 200);
  for (const int workers : {0, 2}) {
    std::vector<Batch> held;
    std::vector<std::string> expected;
    {
      Loader loader((folder / "data.tar").string(), options(workers));
      expected = load_all(loader, {0});
      loader.start_epoch(0);
      for (Batch batch; loader.next(batch);) held.push_back(batch);  // more than there are slots
    }
    CHECK(descendants().empty());
    REQUIRE(held.size() == expected.size());
    for (std::size_t i = 0; i < held.size(); ++i) CHECK(fingerprint(held[i]) == expected[i]);
    std::thread([&] { held.clear(); }).join();
  }
}

TEST_CASE("A batch dropped in a fork of the consumer stays lent in the consumer", "[loader]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 64);
  LoaderOptions with = options(1);
  with.prefetch = 1;
  with.lease_timeout_ms = 50;
  Loader loader((folder / "data.tar").string(), with);
  Batch batch;
  REQUIRE(loader.next(batch));
  const std::string before = fingerprint(batch);
  const pid_t child = fork();
  if (child == 0) {
    batch = Batch();
    _exit(0);
  }
  int status = 1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  for (int i = 0; i < 3; ++i) {
    Batch other;
    REQUIRE(loader.next(other));
  }
  CHECK(fingerprint(batch) == before);
}

TEST_CASE("A damaged value is an error that names shard, sample and field", "[loader]") {
  TemporaryFolder folder;
  {
    const auto writer = find_format("tar").create(folder / "data.tar", {});
    for (int number = 0; number < 20; ++number) {
      Sample sample("s" + std::to_string(100 + number));
      sample.add("cls", number == 13 ? "thirteen" : std::to_string(number));
      writer->write(sample.view());
    }
    writer->close();
  }
  for (const int workers : {0, 1, 4}) {
    LoaderOptions with;
    with.outputs = {class_output()};
    with.batch_size = 5;
    with.num_workers = workers;
    Loader loader((folder / "data.tar").string(), with);
    Batch batch;
    REQUIRE(loader.next(batch));
    REQUIRE(loader.next(batch));
    std::string message;
    try {
      loader.next(batch);
    } catch (const Error& error) {
      message = error.what();
      CHECK(error.code() == ErrorCode::kDataLoss);
    }
    CHECK_THAT(message, Catch::StartsWith((folder / "data.tar").string() +
                                          ": sample \"s113\" field \"cls\" (offset 13824): not a "
                                          "decimal number of int64: \"thirteen\""));
    CHECK((message.find("(worker ") != std::string::npos) == (workers > 0));
    REQUIRE(loader.next(batch));  // goes on behind the damaged batch
    CHECK(batch.samples()[0] == 15);
    CHECK_FALSE(loader.next(batch));
  }
  CHECK(descendants().empty());
}

TEST_CASE("A field that a sample lacks is an error that lists its fields", "[loader]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 3);
  LoaderOptions with;
  with.outputs = {image_output("image", 8, 8)};
  with.num_workers = 1;
  Loader loader((folder / "data.tar").string(), with);
  Batch batch;
  CHECK_THROWS_WITH(loader.next(batch), Catch::Contains("sample \"key000000\"") &&
                                            Catch::Contains("has no image field") &&
                                            Catch::Contains("bin, cls, npy"));
}

TEST_CASE("Errors in opening arrive from the child process", "[loader]") {
  TemporaryFolder folder;
  write_text(folder / "noise.tar", std::string(2000, 'x'));
  for (const int workers : {0, 2}) {
    CHECK_THROWS_WITH(Loader((folder / "absent.tar").string(), options(workers)),
                      Catch::Contains("absent.tar") && Catch::Contains("no such file"));
    CHECK_THROWS_WITH(Loader((folder / "noise.tar").string(), options(workers)),
                      Catch::Contains("noise.tar") && Catch::Contains("no storage format"));
  }
  find_format("tar").create(folder / "empty.tar", {})->close();
  CHECK_THROWS_WITH(Loader((folder / "empty.tar").string(), options(1)),
                    Catch::Contains("holds no samples"));
  CHECK(descendants().empty());
}

TEST_CASE("Wrong options are refused at construction, by name and value", "[loader]") {
  // Row 32 of the collected faults.
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 3);
  const auto refused = [&](auto change, const std::string& option, const std::string& value) {
    LoaderOptions with = options(2);
    change(with);
    CHECK_THROWS_WITH(Loader((folder / "data.tar").string(), with),
                      Catch::Contains("option " + option) && Catch::Contains("is " + value));
  };
  refused([](LoaderOptions& o) { o.prefetch = 0; }, "prefetch", "0");
  refused([](LoaderOptions& o) { o.num_workers = -2; }, "num_workers", "-2");
  refused([](LoaderOptions& o) { o.batch_size = 0; }, "batch_size", "0");
  refused([](LoaderOptions& o) { o.sample_timeout_ms = -1; }, "sample_timeout_ms", "-1");
  refused([](LoaderOptions& o) { o.max_worker_restarts = -1; }, "max_worker_restarts", "-1");
  refused([](LoaderOptions& o) { o.lease_timeout_ms = -1; }, "lease_timeout_ms", "-1");
  refused([](LoaderOptions& o) { o.outputs.push_back(class_output()); }, "outputs[4].name",
          "\"label\" a second time");
  refused([](LoaderOptions& o) { o.outputs[3].compute = nullptr; }, "outputs[3].compute", "empty");
  refused([](LoaderOptions& o) { o.outputs = {image_output("i", 0, 8)}; }, "outputs[0]",
          "an image without a size");

  LoaderOptions inline_with = options(0);
  inline_with.prefetch = 4;  // has no effect; says so once
  Loader loader((folder / "data.tar").string(), inline_with);
  CHECK(load_all(loader, {0}).size() == 1);
}

TEST_CASE("All batches held for too long is an error, not a hang", "[loader]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 400);
  LoaderOptions with = options(2);
  with.batch_size = 1;
  with.prefetch = 2;
  with.lease_timeout_ms = 20;
  Loader loader((folder / "data.tar").string(), with);
  std::vector<Batch> held;
  const auto hold_all = [&] {
    for (Batch batch; loader.next(batch);) held.push_back(batch);
  };
  CHECK_THROWS_WITH(hold_all(), Catch::Contains("lease_timeout_ms = 20"));
  CHECK(held.size() > 4);  // the ring grew first
  held.clear();
  Batch batch;
  CHECK(loader.next(batch));
}

namespace {

// A runtime without hardware: records what is locked.
class FakeDevice : public internal::Device {
 public:
  std::string unavailable() override { return missing; }
  std::string pin(std::byte* data, std::size_t bytes) override {
    if (pinned.size() == limit) return "no more memory can be locked";
    pinned[data] = bytes;
    return {};
  }
  void unpin(std::byte* data) noexcept override { pinned.erase(data); }

  internal::Done mark(void* stream) override {
    marked.push_back(stream);
    return [this] { return done; };
  }
  std::string missing;
  std::vector<void*> marked;
  bool done = true;
  std::size_t limit = 1000;
  std::map<std::byte*, std::size_t> pinned;
};

}  // namespace

TEST_CASE("pin_memory locks every slot once, at the first batch", "[loader][cuda]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 100);
  const auto device = std::make_shared<FakeDevice>();
  internal::set_device_for_testing(device);
  for (const int workers : {0, 2}) {
    LoaderOptions with = options(workers);
    with.pin_memory = true;
    device->limit = 1000;
    {
      Loader loader((folder / "data.tar").string(), with);
      CHECK(device->pinned.empty());
      load_all(loader, {0, 1});
      CHECK(loader.stats().pinned);
      CHECK(device->pinned.size() == (workers > 0 ? 6 : 2));
      Batch batch;
      loader.start_epoch(0);
      REQUIRE(loader.next(batch));
      CHECK(device->pinned.count(batch["label"].data.data()) == 1);
    }
    CHECK(device->pinned.empty());

    device->limit = 1;
    Loader partly((folder / "data.tar").string(), with);
    CHECK(load_all(partly, {0}).size() == 7);  // goes on with ordinary memory
    CHECK_FALSE(partly.stats().pinned);
  }
  device->missing = "no driver";
  LoaderOptions with = options(2);
  with.pin_memory = true;
  Loader loader((folder / "data.tar").string(), with);
  CHECK(load_all(loader, {0}).size() == 7);
  CHECK_FALSE(loader.stats().pinned);
  internal::set_device_for_testing(nullptr);
}

TEST_CASE("A page-locked slot is used again only when the device has done with it",
          "[loader][cuda]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 400);
  const auto device = std::make_shared<FakeDevice>();
  internal::set_device_for_testing(device);
  for (const int workers : {0, 2}) {
    LoaderOptions with = options(workers);
    with.pin_memory = true;
    with.lease_timeout_ms = 100;
    Loader loader((folder / "data.tar").string(), with);
    Batch batch;
    device->done = false;
    std::set<std::byte*> used;
    std::string message;
    try {
      while (loader.next(batch)) {
        REQUIRE(used.insert(batch["label"].data.data()).second);  // never the same memory twice
        batch.record_stream(&message);
      }
    } catch (const Error& error) {
      message = error.what();
    }
    CHECK(used.size() >= 8);  // the ring grew
    CHECK(message.find("lease_timeout_ms") != std::string::npos);
    CHECK(std::count(device->marked.begin(), device->marked.end(), &message) > 0);
    device->done = true;
    REQUIRE(loader.next(batch));
    CHECK(used.contains(batch["label"].data.data()));
  }
  internal::set_device_for_testing(nullptr);
}

TEST_CASE("Statistics count samples, batches and bytes", "[loader]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 100);
  for (const int workers : {0, 2}) {
    Loader loader((folder / "data.tar").string(), options(workers));
    load_all(loader, {0});
    const LoaderStats stats = loader.stats();
    CHECK(stats.batches == 7);
    CHECK(stats.samples == 100);
    CHECK(stats.workers.size() == (workers > 0 ? 2 : 1));
    std::uint64_t samples = 0;
    std::uint64_t bytes = 0;
    for (const WorkerStats& worker : stats.workers) {
      samples += worker.samples;
      bytes += worker.bytes;
    }
    CHECK(samples >= 100);  // and what was prefetched
    CHECK(bytes > 100 * 100);
    CHECK(stats.deaths == 0);
  }
}

TEST_CASE("Two loaders may work at once", "[loader]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 100);
  Loader first((folder / "data.tar").string(), options(2));
  Loader second((folder / "data.tar").string(), options(2));
  Batch a;
  Batch b;
  while (first.next(a)) {
    REQUIRE(second.next(b));
    REQUIRE(fingerprint(a) == fingerprint(b));
  }
}

TEST_CASE("The working folder may change after construction", "[loader]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 20);
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  Loader loader("data.tar", options(2));
  std::filesystem::current_path("/");
  CHECK(load_all(loader, {0}).size() == 2);
  std::filesystem::current_path(before);
}

TEST_CASE("A mixture of datasets in different formats keeps its shares", "[loader]") {
  TemporaryFolder folder;
  write_samples(folder / "large.tar", 300);
  write_samples(folder / "other.tar", 40);
  LoaderOptions with = options(0);
  with.samples_per_epoch = 1000;
  const std::vector<MixturePart> mixture = {{(folder / "large.tar").string(), 3},
                                            {(folder / "other.tar").string(), 1}};
  Loader inline_loader(mixture, with);
  CHECK(inline_loader.samples_per_epoch() == 1000);
  const std::vector<std::string> expected = load_all(inline_loader, {0, 1});
  with.num_workers = 3;
  Loader loader(mixture, with);
  REQUIRE(load_all(loader, {0, 1}) == expected);
  REQUIRE(loader.datasets().size() == 2);
  std::size_t second = 0;
  for (const Batch& batch : loader.epoch(2)) {
    const auto array = batch["array"].as<float>();
    for (std::size_t row = 0; row < batch.size(); ++row) {
      const std::uint64_t sample = batch.samples()[row];
      second += sample >= 300 ? 1 : 0;
      REQUIRE(array[row * 6] == static_cast<float>(sample >= 300 ? sample - 300 : sample));
    }
  }
  CHECK(second > 230);
  CHECK(second < 270);
  const std::string state = loader.state();
  inline_loader.resume(state);
  CHECK(load_all(inline_loader, {3}) == load_all(loader, {3}));
  CHECK_THROWS_WITH(Loader(std::vector<MixturePart>{}, with), Catch::Contains("names no dataset"));
}
