// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>
#include <shardmill/loader/loader.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>

#include "tests/loader/loader_test_data.h"
#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

constexpr std::size_t kSamples = 1003;

LoaderOptions options(int workers, std::size_t batch_size = 16) {
  LoaderOptions options;
  options.outputs = {class_output(), bytes_output("data", "bin"), random_output()};
  options.batch_size = batch_size;
  options.shuffle = Shuffle::kFull;
  options.num_workers = workers;
  options.rank = 0;
  options.world_size = 1;
  return options;
}

std::string message_of(Loader& loader, const std::string& state) {
  try {
    loader.resume(state);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("Resuming goes on bit-identically, with any number of workers", "[resume]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  write_samples(path, kSamples);
  for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kFull, Shuffle::kBlock}) {
    LoaderOptions whole_options = options(2);
    whole_options.seed = 11;
    whole_options.shuffle = shuffle;
    whole_options.block_size = 8;
    whole_options.block_window = 4;
    Loader whole(path, whole_options);
    const std::vector<std::string> expected = load_all(whole, {2, 3});
    for (const std::size_t stop : {0, 1, 17, 62, 63}) {
      Loader first(path, whole_options);
      std::vector<std::string> got;
      first.start_epoch(2);
      Batch batch;
      for (std::size_t i = 0; i < stop; ++i) {
        REQUIRE(first.next(batch));
        got.push_back(fingerprint(batch));
      }
      const std::string state = first.state();
      LoaderOptions other = whole_options;
      other.num_workers = stop % 2 == 0 ? 0 : 3;
      if (stop > 1) other.seed.reset();  // it stands in the state
      Loader second(path, other);
      second.resume(state);
      REQUIRE(second.current_epoch() == 2);
      REQUIRE(second.state() == state);
      for (const std::string& text : load_all(second, {2, 3})) got.push_back(text);
      REQUIRE(got == expected);
    }
  }
}

TEST_CASE("A state speaks of delivered batches, not of prepared ones", "[resume]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  write_samples(path, 200);
  LoaderOptions with = options(2, 10);
  with.prefetch = 8;
  Loader loader(path, with);
  const std::string fresh = loader.state();
  Batch batch;
  REQUIRE(loader.next(batch));
  const std::vector<std::uint64_t> first(batch.samples().begin(), batch.samples().end());
  loader.resume(fresh);
  REQUIRE(loader.next(batch));
  CHECK(std::vector<std::uint64_t>(batch.samples().begin(), batch.samples().end()) == first);
  CHECK(loader.state().find("\"cursor\":10,") != std::string::npos);
  // Going back to the epoch's beginning is another thing than resuming.
  loader.start_epoch(0);
  CHECK(loader.state() == fresh);
}

TEST_CASE("8 ranks of 32 resume as 6 of 40: every sample once, plus padding", "[resume]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  write_samples(path, kSamples);
  for (const Shuffle shuffle : {Shuffle::kFull, Shuffle::kBlock}) {
    std::map<std::uint64_t, int> visits;
    int padding = 0;
    std::string state;
    const auto run = [&](int world, std::size_t batch_size, std::size_t batches) {
      std::set<std::string> states;
      for (int rank = 0; rank < world; ++rank) {
        LoaderOptions with = options(0, batch_size);
        with.shuffle = shuffle;
        with.block_size = 4;
        with.block_window = 3;
        with.rank = rank;
        with.world_size = world;
        Loader loader(path, with);
        if (!state.empty()) loader.resume(state);
        Batch batch;
        for (std::size_t i = 0; i < batches && loader.next(batch); ++i) {
          for (std::size_t row = 0; row < batch.size(); ++row) {
            if (batch.valid()[row] == 1) {
              ++visits[batch.samples()[row]];
            } else {
              ++padding;
            }
          }
        }
        states.insert(loader.state());
      }
      REQUIRE(states.size() == 1);
      state = *states.begin();
    };
    run(8, 32, 2);
    REQUIRE(visits.size() == 512);
    run(6, 40, 100);
    CHECK(visits.size() == kSamples);
    for (const auto& [sample, count] : visits) REQUIRE(count == 1);
    CHECK(padding == (6 - (kSamples - 512) % 6) % 6);
    CHECK(state.find("\"cursor\":1003,") != std::string::npos);
  }
}

TEST_CASE("A state of another dataset, order or seed is refused with the reason", "[resume]") {
  TemporaryFolder folder;
  write_samples(folder / "a.tar", 100);
  write_samples(folder / "b.tar", 101);
  LoaderOptions seeded = options(0);
  seeded.seed = 5;
  Loader loader((folder / "a.tar").string(), seeded);
  const std::string state = loader.state();
  Loader other((folder / "b.tar").string(), seeded);
  CHECK(message_of(other, state).find("another dataset") != std::string::npos);
  LoaderOptions unshuffled = seeded;
  unshuffled.shuffle = Shuffle::kNone;
  Loader second((folder / "a.tar").string(), unshuffled);
  CHECK(message_of(second, state).find("another order") != std::string::npos);
  LoaderOptions reseeded = seeded;
  reseeded.seed = 6;
  Loader third((folder / "a.tar").string(), reseeded);
  CHECK(message_of(third, state).find("seed 5") != std::string::npos);
  for (const std::string text :
       {"", "[]", "{}", "{\"version\":1}", "{\"version\":2}", "nonsense"}) {
    CHECK(message_of(loader, text).find("loader state") != std::string::npos);
  }
  std::string beyond = state;
  beyond.replace(beyond.find("\"cursor\":0"), 10, "\"cursor\":101");
  CHECK(message_of(loader, beyond).find("stands at sample 101") != std::string::npos);
  // Refusing changes nothing.
  CHECK(loader.state() == state);
  // Moved data is the same data.
  std::filesystem::create_directory(folder / "elsewhere");
  std::filesystem::copy_file(folder / "a.tar", folder / "elsewhere" / "a.tar");
  Loader moved((folder / "elsewhere" / "a.tar").string(), seeded);
  CHECK(message_of(moved, state) == "no error");
}

TEST_CASE("Uneven ends: every policy, known before the epoch", "[ranks]") {
  TemporaryFolder folder;
  for (const auto& [name, count] : std::map<std::string, std::size_t>{
           {"s0.tar", 50}, {"s1.tar", 30}, {"s2.tar", 20}, {"s3.tar", 3}}) {
    write_samples(folder / name, count);  // keys repeat over shards; numbers do not
  }
  const std::string path = (folder / "s{0..3}.tar").string();
  for (const Uneven uneven : {Uneven::kPad, Uneven::kDrop, Uneven::kExact}) {
    std::map<std::uint64_t, int> visits;
    std::size_t rows = 0;
    for (int rank = 0; rank < 4; ++rank) {
      LoaderOptions with = options(rank == 1 ? 2 : 0, 8);
      with.outputs = {class_output()};
      with.rank = rank;
      with.world_size = 4;
      with.uneven = uneven;
      Loader loader(path, with);
      std::size_t own = 0;
      std::size_t batches = 0;
      for (const Batch& batch : loader.epoch(0)) {
        own += batch.size();
        ++batches;
        for (std::size_t row = 0; row < batch.size(); ++row) {
          if (batch.valid()[row] == 1) ++visits[batch.samples()[row]];
        }
      }
      CHECK(own == loader.samples_per_epoch());
      CHECK(batches == loader.batches_per_epoch());
      if (uneven != Uneven::kExact) CHECK(own == (uneven == Uneven::kPad ? 26 : 25));
      rows += own;
    }
    for (const auto& [sample, count] : visits) REQUIRE(count == 1);
    CHECK(visits.size() == (uneven == Uneven::kDrop ? 100 : 103));
    CHECK(rows == (uneven == Uneven::kPad ? 104 : uneven == Uneven::kDrop ? 100 : 103));
  }
}

TEST_CASE("More ranks than samples: everybody gets the same number of batches", "[ranks]") {
  TemporaryFolder folder;
  write_samples(folder / "data.tar", 3);
  std::set<std::uint64_t> visited;
  for (int rank = 0; rank < 8; ++rank) {
    LoaderOptions with = options(0, 2);
    with.rank = rank;
    with.world_size = 8;
    Loader loader((folder / "data.tar").string(), with);
    Batch batch;
    REQUIRE(loader.next(batch));
    REQUIRE(batch.size() == 1);
    if (batch.valid()[0] == 1) visited.insert(batch.samples()[0]);
    CHECK(batch.valid()[0] == (rank < 3 ? 1 : 0));
    REQUIRE_FALSE(loader.next(batch));
  }
  CHECK(visited.size() == 3);
}

TEST_CASE("Ranks come from the environment of the launcher, and agree on the seed", "[ranks]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  write_samples(path, 100);
  const std::vector<std::pair<const char*, const char*>> launchers = {
      {"RANK", "WORLD_SIZE"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};
  for (const auto& [rank_name, size_name] : launchers) {
    std::map<std::uint64_t, int> visits;
    for (int rank = 0; rank < 4; ++rank) {
      setenv(rank_name, std::to_string(rank).c_str(), 1);
      setenv(size_name, "4", 1);
      LoaderOptions with = options(0);
      with.rank = with.world_size = kAuto;
      Loader loader(path, with);
      CHECK(loader.options().rank == rank);
      CHECK(loader.options().world_size == 4);
      for (const Batch& batch : loader.epoch(1)) {
        for (const std::uint64_t sample : batch.samples()) ++visits[sample];
      }
    }
    setenv(rank_name, "4", 1);
    LoaderOptions with = options(0);
    with.rank = with.world_size = kAuto;
    CHECK_THROWS_WITH(Loader(path, with), Catch::Contains(rank_name));
    setenv(rank_name, "four", 1);
    CHECK_THROWS_WITH(Loader(path, with), Catch::Contains("not a number"));
    unsetenv(rank_name);
    unsetenv(size_name);
    CHECK(visits.size() == 100);
    for (const auto& [sample, count] : visits) REQUIRE(count == 1);
  }
  // A batch script of Slurm without a step is one process.
  setenv("SLURM_PROCID", "0", 1);
  setenv("SLURM_NTASKS", "4", 1);
  LoaderOptions with = options(0);
  with.rank = with.world_size = kAuto;
  CHECK(Loader(path, with).options().world_size == 1);
  unsetenv("SLURM_PROCID");
  unsetenv("SLURM_NTASKS");
}

TEST_CASE("Replaying a position gives the identical row, in this process", "[replay]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  write_samples(path, 100);
  LoaderOptions with = options(2, 7);
  with.outputs.push_back(computed_output("pid", {DType::kInt32, {}}, [](const RowContext& context) {
    const int pid = getpid();
    std::memcpy(context.row.data(), &pid, sizeof pid);
  }));
  with.rank = 1;
  with.world_size = 3;
  Loader loader(path, with);
  for (const Batch& batch : loader.epoch(4)) {
    CHECK(batch["pid"].as<std::int32_t>()[0] != getpid());
    for (std::size_t row = 0; row < batch.size(); ++row) {
      const Batch one = loader.replay(4, batch.positions()[row]);
      REQUIRE(one.size() == 1);
      REQUIRE(one.epoch() == 4);
      CHECK(one.samples()[0] == batch.samples()[row]);
      CHECK(one.positions()[0] == batch.positions()[row]);
      CHECK(one["pid"].as<std::int32_t>()[0] == getpid());
      CHECK(one["label"].as<std::int64_t>()[0] == batch["label"].as<std::int64_t>()[row]);
      CHECK(one["random"].as<std::uint64_t>()[0] == batch["random"].as<std::uint64_t>()[row]);
      const auto value = batch["data"].value(row);
      CHECK(std::ranges::equal(one["data"].value(0), value));
    }
  }
  CHECK_THROWS_WITH(loader.replay(0, 1000), Catch::Contains("position 1000"));
}

TEST_CASE("Breaking off a thousand epochs leaks nothing", "[resume]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  write_samples(path, 200);
  Loader loader(path, options(2, 10));
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  Batch batch;
  REQUIRE(loader.next(batch));
  const auto before = descriptors();
  for (std::uint64_t epoch = 0; epoch < 1000; ++epoch) {
    std::size_t taken = 0;
    for (const Batch& some : loader.epoch(epoch)) {
      REQUIRE(some.epoch() == epoch);
      REQUIRE(some.index() == taken);
      if (++taken == 1 + epoch % 3) break;
    }
  }
  std::set<std::uint64_t> seen;
  for (const Batch& some : loader.epoch(5))
    seen.insert(some.samples().begin(), some.samples().end());
  CHECK(seen.size() == 200);
  CHECK(descriptors() == before);
  CHECK(descendants().size() <= 4);  // nursery, two workers, perhaps a scout that still ends
}
