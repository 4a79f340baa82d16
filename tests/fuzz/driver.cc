// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer: replays files, or mutates the seeds a number of times, the
// same ones every time.
//   TARGET [--runs N] [--random S] [FILE...]     --seeds DIR writes the seeds as files
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/fuzz/fuzz.h"

namespace {

using shardmill::fuzz::mend;
using shardmill::fuzz::run;
using shardmill::fuzz::seeds;

constexpr unsigned kHangSeconds = 60;

std::string current;  // the input that is being tried, for on_crash()

// Keeps the input that crashed or hung, then lets the signal do what it does.
void on_crash(int signal) {
  const int fd = open("fuzz-finding", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd >= 0 && write(fd, current.data(), current.size()) >= 0) {
    constexpr char kText[] = "fuzz: the input is in ./fuzz-finding\n";
    (void)!write(STDERR_FILENO, kText, sizeof kText - 1);
  }
  std::signal(signal, SIG_DFL);
  raise(signal);
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string mutate(const std::vector<std::string>& inputs) {
    std::string data = inputs[below(inputs.size())];
    for (std::size_t n = 1 + below(6); n > 0; --n) change(data, inputs);
    mend(data, random_());
    return data;
  }

 private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }

  void change(std::string& data, const std::vector<std::string>& inputs) {
    const std::size_t at = below(data.size());
    const std::size_t length = std::min(data.size() - at, std::size_t{1} << below(12));
    switch (below(9)) {
      case 0:
      case 1:
        if (!data.empty()) data[at] ^= static_cast<char>(1 << below(8));
        break;
      case 2:
        if (!data.empty()) data[at] = static_cast<char>(random_());
        break;
      case 3:
        data.resize(at);
        break;
      case 4:
        data.erase(at, length);
        break;
      case 5:
        data.insert(at, data.substr(at, length));
        break;
      case 6: {  // a number that is large, small or negative, in either byte order
        constexpr std::uint64_t kOdd[] = {
            0, 1, 0x7F, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF};
        std::uint64_t value = kOdd[below(std::size(kOdd))] - below(3);
        if (below(2) == 0) value = __builtin_bswap64(value);
        std::memcpy(data.data() + at, &value, std::min<std::size_t>(data.size() - at, 8));
        break;
      }
      case 7:
        std::fill_n(data.begin() + static_cast<std::ptrdiff_t>(at), length,
                    below(2) == 0 ? '\0' : '\xFF');
        break;
      default: {
        const std::string& other = inputs[below(inputs.size())];
        const std::size_t from = below(other.size());
        data.replace(at, std::min(length, data.size() - at), other.substr(from, length));
      }
    }
  }

  std::mt19937_64 random_;
};

bool try_input(std::string input) {
  current = std::move(input);
  alarm(kHangSeconds);
  const bool valid = run(current);
  alarm(0);
  return valid;
}

std::string read_file(const char* name) {
  std::ifstream in(name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t runs = 2000;
  std::uint64_t random = 1;
  bool replayed = false;
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM}) {
    std::signal(signal, on_crash);
  }
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const char* const next = i + 1 < argc ? argv[i + 1] : "";
    if (argument == "--runs") {
      runs = std::strtoull(next, nullptr, 10);
      ++i;
    } else if (argument == "--random") {
      random = std::strtoull(next, nullptr, 10);
      ++i;
    } else if (argument == "--seeds") {
      std::size_t number = 0;
      for (const std::string& seed : seeds()) {
        std::ofstream(std::string(next) + "/seed-" + std::to_string(number++), std::ios::binary)
            << seed;
      }
      return 0;
    } else {
      try_input(read_file(argv[i]));
      replayed = true;
    }
  }
  if (replayed) return 0;
  const std::vector<std::string> inputs = seeds();
  std::size_t valid = 0;
  for (const std::string& input : inputs) valid += try_input(input);
  // Where nothing is valid, all that follows would end at the first check.
  if (valid == 0) shardmill::fuzz::fail("no seed was taken as valid");
  Mutator mutator(random);
  std::size_t still_valid = 0;
  for (std::size_t n = 0; n < runs; ++n) still_valid += try_input(mutator.mutate(inputs));
  std::printf("%zu seeds, %zu valid, and %zu mutations of them, %zu valid: nothing found\n",
              inputs.size(), valid, runs, still_valid);
  return 0;
}
