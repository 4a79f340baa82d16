// SPDX-License-Identifier: Apache-2.0
// The loader with worker threads: the program that ThreadSanitizer runs on.
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>
#include <shardmill/loader/loader.h>

#include <deque>
#include <set>
#include <stdexcept>
#include <thread>

#include "tests/loader/loader_test_data.h"
#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

LoaderOptions options(int workers) {
  LoaderOptions options;
  options.outputs = {class_output(), bytes_output("data", "bin"), array_output("array", "npy"),
                     random_output()};
  options.batch_size = 16;
  options.shuffle = Shuffle::kFull;
  options.seed = 7;
  options.num_workers = workers;
  options.workers = Workers::kThreads;
  return options;
}

}  // namespace

TEST_CASE("Threads make the same batches as one, epoch after epoch", "[threads]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  write_samples(path, 503);
  Loader inline_loader(path, options(0));
  const std::vector<std::string> expected = load_all(inline_loader, {0, 1, 5});
  for (const int workers : {1, 2, 4, 16}) {
    for (const int prefetch : {1, 4}) {
      LoaderOptions with = options(workers);
      with.prefetch = prefetch;
      Loader loader(path, with);
      REQUIRE(load_all(loader, {0, 1, 5}) == expected);
      REQUIRE(loader.stats().workers.size() == static_cast<std::size_t>(workers));
    }
  }
  CHECK(descendants().empty());
}

TEST_CASE("Threads: breaks, resumes, held batches and batches dropped elsewhere", "[threads]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  write_samples(path, 300);
  Loader loader(path, options(4));
  Loader reference(path, options(0));
  std::deque<Batch> held;
  for (std::uint64_t epoch = 0; epoch < 60; ++epoch) {
    const std::vector<std::string> expected = load_all(reference, {epoch});
    std::size_t taken = 0;
    const std::string state = loader.state();
    for (Batch& batch : loader.epoch(epoch)) {
      REQUIRE(fingerprint(batch) == expected[taken]);
      held.push_back(batch);
      if (held.size() > 5) {
        std::jthread([last = std::move(held.front())]() mutable { last = Batch(); });
        held.pop_front();
      }
      if (++taken == 1 + epoch % 19) break;
    }
    if (epoch % 7 == 3) loader.resume(state);
  }
}

TEST_CASE("Threads: bad samples follow the policy", "[threads]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  write_samples(path, 200);
  LoaderOptions with = options(3);
  with.outputs.push_back(computed_output("odd", {DType::kUInt8, {}}, [](const RowContext& context) {
    context.row[0] = std::byte{1};
    if (context.sample.key.ends_with("77")) throw std::runtime_error("seventy-seven");
  }));
  Loader failing(path, with);
  CHECK_THROWS_WITH(load_all(failing, {0}), Catch::Contains("seventy-seven"));
  with.bad_samples = BadSamples::kReplace;
  Loader replacing(path, with);
  CHECK(load_all(replacing, {0}).size() == 13);
  CHECK(replacing.stats().bad_samples >= 2);
}

TEST_CASE("Threads: what only processes can do is refused", "[threads]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 20);
  LoaderOptions with = options(2);
  with.sample_timeout_ms = 100;
  CHECK_THROWS_WITH(Loader((folder / "data.tar").string(), with),
                    Catch::Contains("sample_timeout_ms"));
  {
    const auto writer =
        find_format("hdf5").create(folder / "data.h5", {.fields = {{.name = "txt"}}});
    Sample sample("key");
    sample.add("txt", "text");
    writer->write(sample.view());
    writer->close();
  }
  with = options(2);
  with.outputs = {bytes_output("text", "txt")};
  CHECK_THROWS_WITH(Loader((folder / "data.h5").string(), with),
                    Catch::Contains("hdf5") && Catch::Contains("use worker processes"));
  with.num_workers = 0;  // one thread
  CHECK(Loader((folder / "data.h5").string(), with).batches_per_epoch() == 1);
}
