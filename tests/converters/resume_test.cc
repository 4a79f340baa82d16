// SPDX-License-Identifier: Apache-2.0
// Conversions that are killed, stopped, locked out, or run in several pieces.
#include <fcntl.h>
#include <shardmill/converters/convert.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "converters/internal/journal.h"
#include "converters/internal/lock.h"
#include "tests/converters/data.h"
#include "tests/support/catch.h"
#include "tests/tools/program.h"

using namespace shardmill;
using namespace shardmill::test;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kFormats = {"tar", "lmdb", "hdf5", "folder"};

// Starts the conversion in a process of its own and kills it, with all its jobs, after a time.
void run_and_kill(const ConvertOptions& options, std::chrono::microseconds after) {
  const pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    try {
      convert(options);
    } catch (const std::exception&) {
      _exit(1);
    }
    _exit(0);
  }
  setpgid(pid, pid);
  usleep(static_cast<useconds_t>(after.count()));
  kill(-pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

}  // namespace

TEST_CASE("A conversion killed at any moment ends byte-identical when resumed", "[resume]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 4, 60);
  std::mt19937 random(20);
  int kills = 0;
  for (const std::string& format : kFormats) {
    auto options = options_for(folder / "raw", folder / (format + "-whole"), format);
    options.shard_samples = 7;
    options.shuffle = 5;
    const auto begin = std::chrono::steady_clock::now();
    convert(options);
    const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now() - begin);
    const auto expected = tree(options.destination);
    options.destination = folder / "out";
    options.resume = true;
    for (int round = 0; round < 4; ++round) {
      for (int kill = 0; kill < 4; ++kill, ++kills) {
        options.jobs = 1 + static_cast<int>(random() % 3);
        run_and_kill(options, std::chrono::microseconds(
                                  random() % (static_cast<unsigned>(whole.count()) + 1)));
      }
      options.jobs = 2;
      convert(options);
      INFO(format << " round " << round);
      CHECK(tree(options.destination) == expected);
      fs::remove_all(options.destination);
    }
  }
  CHECK(kills >= 50);
}

TEST_CASE("Nothing half-written has a final name, whenever a conversion is killed", "[resume]") {
  TemporaryFolder folder;  // row 53
  make_classes(folder / "raw", 4, 60);
  std::mt19937 random(3);
  for (const std::string format : {"tar", "lmdb", "hdf5"}) {
    auto options = options_for(folder / "raw", folder / "whole", format);
    options.shard_samples = 7;
    options.force = true;
    convert(options);
    options.destination = folder / "out";
    options.force = false;
    for (int i = 0; i < 6; ++i) {
      run_and_kill(options, std::chrono::microseconds(random() % 40'000));
      if (!fs::exists(folder / "out")) continue;
      for (const auto& entry : fs::directory_iterator(folder / "out")) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with(".") || entry.is_directory()) continue;
        INFO(format << " " << name);
        CHECK(read_text(entry.path()) == read_text(folder / "whole" / name));
      }
      fs::remove_all(folder / "out");
    }
  }
}

TEST_CASE("The options of a resumed conversion come from its plan", "[resume]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 2, 20);
  auto options = options_for(folder / "raw", folder / "whole", "tar");
  options.shard_samples = 6;
  options.shuffle = 9;
  convert(options);
  options.destination = folder / "out";
  options.plan_only = true;
  CHECK(convert(options).samples == 40);
  CHECK(only_resumable(folder / "out"));
  CHECK_FALSE(fs::exists(folder / "out/shard-000000.tar"));

  options.plan_only = false;
  ErrorInfo error = error_of([&] { convert(options); });
  CHECK(error.remedy.find("--resume") != std::string::npos);
  options.resume = true;
  options.shuffle = 8;
  error = error_of([&] { convert(options); });
  CHECK(error.code == ErrorCode::kInvalidArgument);
  CHECK(error.path == "--shuffle");
  CHECK(error.cause.find("\"9\"") != std::string::npos);

  ConvertOptions bare;  // sources and format, too
  bare.destination = folder / "out";
  bare.resume = true;
  bare.jobs = 1;
  bare.given = {"--shard-size"};  // at its default, which is the plan's
  CHECK(convert(bare).samples == 40);
  CHECK(tree(folder / "out") == tree(folder / "whole"));
  bare.given = {"--shard-count"};
  CHECK(error_of([&] { convert(bare); }).path == "--shard-count");
}

TEST_CASE("Resuming begins where there is nothing and makes lost shards again", "[resume]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 2, 20);
  auto options = options_for(folder / "raw", folder / "out", "hdf5");
  options.shard_samples = 6;
  options.resume = true;
  CHECK(convert(options).resumed_shards == 0);
  const auto expected = tree(folder / "out");
  CHECK(convert(options).resumed_shards == 7);  // complete: nothing to do
  fs::remove(folder / "out/shard-000002.h5");
  fs::resize_file(folder / "out/shard-000004.h5", 100);
  write_text(folder / "out/shard-000005.sum", "damaged");
  CHECK(convert(options).resumed_shards == 4);
  CHECK(tree(folder / "out") == expected);

  fs::remove(folder / "out/shard-000000.h5");
  write_text(folder / "raw/a/n00.jpg", noise(321, 77));
  const ErrorInfo error = error_of([&] { convert(options); });
  CHECK(error.code == ErrorCode::kDataLoss);
  CHECK(error.cause.find("do not give this dataset any more") != std::string::npos);
}

TEST_CASE("A journal keeps whole lines alone", "[resume]") {
  using internal::Journal;
  TemporaryFolder folder;
  const fs::path file = folder / "journal";
  Journal(file).append("one");
  Journal(file).append("two");
  const std::string good = read_text(file);
  for (std::size_t cut = 0; cut < good.size(); ++cut) {
    write_text(file, good.substr(0, cut));
    const auto lines = Journal::read(file);
    CHECK(lines.size() == (cut >= good.size() / 2 ? 1 : 0));
    Journal(file).append("next");  // is not hidden by what was cut off
    CHECK(Journal::read(file).back() == "next");
    CHECK(Journal::read(file).size() == lines.size() + 1);
  }
  CHECK(Journal::read(folder / "none").empty());
}

TEST_CASE("Two conversions into one directory refuse each other", "[resume][lock]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 2, 5);
  auto options = options_for(folder / "raw", folder / "out", "tar");
  bool tried = false;
  Observer observer;
  observer.progress = [&](const Progress& progress) {
    if (progress.phase != "writing" || tried) return;
    tried = true;
    auto second = options;
    second.resume = true;
    const ErrorInfo error = error_of([&] { convert(second); });
    CHECK(error.cause.find("process " + std::to_string(getpid())) == 0);
    second.resume = false;
    second.rank = 1;
    second.world_size = 2;
    std::stop_source stop;
    stop.request_stop();
    Observer stopped;
    stopped.stop = stop.get_token();
    CHECK_THROWS_AS(convert(second, stopped), Interrupted);  // it would wait
  };
  convert(options, observer);
  CHECK(tried);
  CHECK(verify_equal((folder / "raw").string(), (folder / "out").string(), {}).ok());
}

TEST_CASE("The lock of a dead process is taken over and reported", "[resume][lock]") {
  using internal::DestinationLock;
  TemporaryFolder folder;
  const pid_t pid = fork();
  if (pid == 0) {
    const auto lock = DestinationLock::try_take(folder / "lock");
    raise(SIGKILL);
  }
  waitpid(pid, nullptr, 0);
  CHECK(fs::exists(folder / "lock"));
  std::string holder;
  {
    const auto lock = DestinationLock::try_take(folder / "lock", &holder);
    REQUIRE(lock);
    CHECK(lock->taken_from().find("process " + std::to_string(pid)) == 0);
    CHECK_FALSE(DestinationLock::try_take(folder / "lock", &holder));
    CHECK(holder.find("process " + std::to_string(getpid())) == 0);
  }
  CHECK_FALSE(fs::exists(folder / "lock"));
}

TEST_CASE("Locks hold where flock is refused", "[resume][lock]") {
#ifdef __SANITIZE_ADDRESS__
  return skip("AddressSanitizer's library must be loaded before any other");
#endif
  TemporaryFolder folder;
  make_classes(folder / "raw", 2, 5);
  const std::string preload = "LD_PRELOAD='" SHARDMILL_NO_FLOCK "' ";
  const std::string program = preload + "'" SHARDMILL_BINARY_DIR "/bin/shardmill' convert '" +
                              (folder / "raw").string() + "' '" + (folder / "out").string() +
                              "' --to tar --quiet";
  // A live process on this machine has it: this one.
  fs::create_directory(folder / "out");
  std::string start = read_text("/proc/self/stat");
  start = start.substr(start.rfind(')') + 2);
  for (int i = 0; i < 19; ++i) start = start.substr(start.find(' ') + 1);
  start = start.substr(0, start.find(' '));
  std::string boot = read_text("/proc/sys/kernel/random/boot_id");
  boot.pop_back();
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const auto line = [&](const std::string& h, const std::string& b, const std::string& s) {
    return h + " " + b + " " + std::to_string(getpid()) + " " + s + "\n";
  };
  write_text(folder / "out/.shardmill-lock", line(host, boot, start));
  CommandResult run = run_command(program);
  CHECK(run.status == 1);
  CHECK(run.err.find("process " + std::to_string(getpid()) + " on " + host +
                     " is converting into this directory") != std::string::npos);

  // Dead ones: another start time, an earlier boot, another machine that was silent for long.
  const fs::path lock = folder / "out/.shardmill-lock";
  for (const std::string& dead :
       {line(host, boot, "1"), line(host, "earlier", start), line("elsewhere", boot, start)}) {
    INFO(dead);
    write_text(lock, dead);
    if (dead.starts_with("elsewhere")) {
      CHECK(run_command(program).status == 1);  // it may live
      fs::last_write_time(lock, fs::file_time_type::clock::now() - std::chrono::minutes(5));
    }
    run = run_command(program);
    CHECK(run.status == 0);
    CHECK(run.err.find("took over the lock of process") != std::string::npos);
    CHECK_FALSE(fs::exists(lock));
    CHECK(verify_equal((folder / "raw").string(), (folder / "out").string(), {}).ok());
    fs::remove_all(folder / "out");
    fs::create_directory(folder / "out");
  }
}

TEST_CASE("Ctrl-C leaves a resumable state and says so; SIGUSR1 does nothing", "[resume]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 4, 200);
  convert([&] {
    auto options = options_for(folder / "raw", folder / "whole", "tar");
    options.shard_samples = 2;
    return options;
  }());
  const auto in_background = [&](const std::string& signal) {
    return run_command(
        "cd '" + folder.path().string() +
        "'; '" SHARDMILL_BINARY_DIR
        "/bin/shardmill' convert raw out --to tar --shard-count 2 --jobs 2 & p=$!; "
        "for i in $(seq 2000); do [ -e out/shard-000000.tar ] && break; sleep 0.002; "
        "done; kill -" +
        signal + " $p; wait $p");
  };
  const CommandResult stopped = in_background("INT");
  if (stopped.status != 0) {  // else it was through before the signal came
    CHECK(stopped.status == 130);
    CHECK(stopped.err.find("run again with --resume") != std::string::npos);
    CHECK(only_resumable(folder / "out"));
    CHECK(shardmill_in(folder.path(), "convert out --resume").status == 0);
  }
  CHECK(tree(folder / "out") == tree(folder / "whole"));
  fs::remove_all(folder / "out");
  CHECK(in_background("USR1").status == 0);
  CHECK(tree(folder / "out") == tree(folder / "whole"));
}
