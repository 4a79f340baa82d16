// SPDX-License-Identifier: Apache-2.0
// What loaders take: proportional set size (PSS) of trainer, nursery and workers together.
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>
#include <shardmill/loader/loader.h>
#include <unistd.h>

#include <cstdio>
#include <deque>
#include <fstream>
#include <thread>

#include "tests/loader/loader_test_data.h"
#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

// Sum over this process and its descendants, in KiB. Mapped pages of the dataset itself are left
// out: they are the page cache's.
std::uint64_t pss_kib() {
  std::vector<int> pids = descendants();
  pids.push_back(getpid());
  std::uint64_t sum = 0;
  for (const int pid : pids) {
    std::ifstream in("/proc/" + std::to_string(pid) + "/smaps_rollup");
    for (std::string line; std::getline(in, line);) {
      unsigned long kib = 0;
      if (std::sscanf(line.c_str(), "Pss_Anon: %lu", &kib) == 1) sum += kib;
      if (std::sscanf(line.c_str(), "Pss_Shmem: %lu", &kib) == 1) sum += kib;
    }
  }
  return sum;
}

// AddressSanitizer keeps what was freed, so that memory means nothing there.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

void read_epoch(Loader& loader, std::uint64_t epoch, std::size_t batches) {
  std::size_t count = 0;
  for (const Batch& batch : loader.epoch(epoch)) {
    REQUIRE(batch.size() > 0);
    if (++count == batches) return;
  }
}

}  // namespace

TEST_CASE("A million samples: one index for all workers, and no growth", "[memory]") {
  if (kSanitized) return skip("memory is not measured under AddressSanitizer");
  TemporaryFolder folder;
  {
    const auto writer = find_format("lmdb").create(folder / "data.lmdb", {});
    char key[128];
    for (std::size_t number = 0; number < 1'000'000; ++number) {
      std::snprintf(key, sizeof key,
                    "a/path/as/long/as/those/that/people/really/have/in/their/"
                    "folders/of/photographs/image-%09zu-of-a-million",
                    number);
      Sample sample(key);
      sample.add("txt", "t");
      writer->write(sample.view());
    }
    writer->close();
  }
  std::uint64_t with_one = 0;
  for (const int workers : {1, 16}) {
    LoaderOptions with;
    with.outputs = {bytes_output("text", "txt")};
    with.batch_size = 50;
    with.shuffle = Shuffle::kFull;
    with.seed = 1;
    with.num_workers = workers;
    Loader loader((folder / "data.lmdb").string(), with);
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) read_epoch(loader, epoch, 400);
    const std::uint64_t first = pss_kib();
    for (std::uint64_t epoch = 3; epoch < 6; ++epoch) read_epoch(loader, epoch, 400);
    const std::uint64_t last = pss_kib();
    std::printf("%d workers: %lu KiB after the first part, %lu KiB after three more\n", workers,
                first, last);
    CHECK(static_cast<double>(last) <= 1.05 * static_cast<double>(first));
    if (workers == 1) {
      with_one = last;
    } else {
      // Each worker's own stack, heap and page tables; nothing of the index.
      CHECK(last <= with_one + 15 * 256);
    }
  }
}

TEST_CASE("Memory is flat over fifty epochs", "[memory]") {
  if (kSanitized) return skip("memory is not measured under AddressSanitizer");
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 500);
  LoaderOptions with;
  with.outputs = {class_output(), bytes_output("data", "bin"), array_output("array", "npy")};
  with.batch_size = 16;
  with.shuffle = Shuffle::kFull;
  with.seed = 1;
  with.num_workers = 4;
  Loader loader((folder / "data.tar").string(), with);
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) read_epoch(loader, epoch, ~std::size_t{0});
  const std::uint64_t before = pss_kib();
  for (std::uint64_t epoch = 5; epoch < 55; ++epoch) read_epoch(loader, epoch, ~std::size_t{0});
  CHECK(static_cast<double>(pss_kib()) <= 1.05 * static_cast<double>(before));
}

TEST_CASE("One value far larger than the others: right, and its memory given back", "[memory]") {
  if (kSanitized) return skip("memory is not measured under AddressSanitizer");
  constexpr std::size_t kLarge = 100 << 20;
  TemporaryFolder folder;
  {
    const auto writer = find_format("tar").create(folder / "data.tar", {});
    std::string value(1024, 'x');
    for (std::size_t number = 0; number < 1001; ++number) {
      char key[16];
      std::snprintf(key, sizeof key, "s%04zu", number);
      Sample sample(key);
      sample.add("bin", number == 500 ? std::string(kLarge, 'y') : value);
      writer->write(sample.view());
    }
    writer->close();
  }
  for (const bool list : {false, true}) {
    LoaderOptions with;
    with.outputs = {list ? list_output("data", "bin") : bytes_output("data", "bin")};
    with.batch_size = 4;
    with.num_workers = 2;
    with.prefetch = 4;
    Loader loader((folder / "data.tar").string(), with);
    Batch batch;
    REQUIRE(loader.next(batch));
    const std::uint64_t before = pss_kib();
    std::uint64_t most = 0;
    std::size_t rows = batch.size();
    while (loader.next(batch)) {
      for (std::size_t row = 0; row < batch.size(); ++row, ++rows) {
        const auto value = batch["data"].value(row);
        REQUIRE(value.size() == (batch.samples()[row] == 500 ? kLarge : 1024));
        REQUIRE(static_cast<char>(value.back()) == (batch.samples()[row] == 500 ? 'y' : 'x'));
      }
      if (batch.index() % 10 == 5) most = std::max(most, pss_kib());
    }
    CHECK(rows == 1001);
    CHECK(most <= before + 3 * kLarge / 1024);
    CHECK(pss_kib() <= before + kLarge / 1024 / 10);
  }
}

TEST_CASE("Batches beyond max_memory are refused, and none are kept beyond it", "[memory]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 400);
  LoaderOptions with;
  with.outputs = {computed_output("rows", {DType::kUInt8, {1 << 20}}, [](const RowContext&) {})};
  with.batch_size = 4;  // 4 MiB and a little
  with.num_workers = 1;
  with.prefetch = 2;
  with.max_memory = 10 << 20;
  with.lease_timeout_ms = 20;
  const std::string path = (folder / "data.tar").string();
  CHECK_THROWS_WITH(Loader(path, with),
                    Catch::Contains("4 batches of 4194304 bytes need 16777216") &&
                        Catch::Contains("max_memory is 10485760"));
  with.max_memory = 26 << 20;
  Loader loader(path, with);
  CHECK(loader.stats().memory_bytes == 16 << 20);
  std::deque<Batch> held;
  const auto hold_all = [&] {
    Batch batch;
    while (loader.next(batch)) held.push_back(batch);
  };
  CHECK_THROWS_WITH(hold_all(), Catch::Contains("lease_timeout_ms"));
  CHECK(held.size() <= 6);
  CHECK(loader.stats().memory_bytes <= 26 << 20);
}
