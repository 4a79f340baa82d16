// SPDX-License-Identifier: Apache-2.0
// Measures one storage format alone, in one process and one thread: writing from memory beside a
// plain sequential write, opening, warm and cold random reads. bench/formats runs it and the
// programs it is compared with. Prints one JSON object.
#include <fcntl.h>
#include <shardmill/formats/dataset.h>
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "formats/internal/index_file.h"

namespace {

using namespace shardmill;
namespace fs = std::filesystem;

constexpr std::uint64_t kAhead = 8;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The median of several runs, in seconds; `prepare` is not counted.
double median(
    int repeats, const std::function<void()>& run, const std::function<void()>& prepare = [] {}) {
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    prepare();
    const double begin = now();
    run();
    seconds.push_back(now() - begin);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

std::string random_bytes(std::size_t size) {
  std::mt19937_64 random(1);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

void write_shard(const Format& format, const fs::path& path, std::uint64_t samples,
                 std::uint64_t size, const std::string& pool, bool vlen = false) {
  WriteOptions options;
  options.vlen = vlen;
  options.samples = samples;
  options.fields = {{"bin"}};
  const auto writer = format.create(path, options);
  char key[24];
  for (std::uint64_t n = 0; n < samples; ++n) {
    std::snprintf(key, sizeof key, "%09lu", static_cast<unsigned long>(n));
    const FieldView field{"bin", as_bytes(std::string_view(pool).substr(n % 4096, size))};
    writer->write({key, {&field, 1}});
  }
  writer->close();
}

void write_plain(const fs::path& path, std::uint64_t samples, std::uint64_t size,
                 const std::string& pool) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  std::string block(1 << 20, '\0');
  for (std::uint64_t left = samples * size; left > 0;) {
    const std::uint64_t length = std::min<std::uint64_t>(left, block.size());
    // From memory too: a copy per block, as dd makes from its input.
    std::copy_n(pool.begin(), std::min<std::size_t>(length, pool.size()), block.begin());
    if (write(fd, block.data(), length) != static_cast<ssize_t>(length)) std::abort();
    left -= length;
  }
  fsync(fd);
  close(fd);
}

void drop_cache(const fs::path& file) {
  const int fd = open(file.c_str(), O_RDONLY);
  fdatasync(fd);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
}

unsigned touch(const SampleView& sample) {
  unsigned sum = 0;
  for (const FieldView& field : sample.fields) {
    for (std::size_t at = 0; at < field.bytes.size(); at += 4096) {
      sum += static_cast<unsigned>(field.bytes[at]);
    }
  }
  return sum;
}

std::vector<std::uint64_t> random_order(std::uint64_t samples) {
  std::vector<std::uint64_t> order(samples);
  for (std::uint64_t n = 0; n < samples; ++n) order[n] = n;
  std::shuffle(order.begin(), order.end(), std::mt19937_64(2));
  return order;
}

// Random reads of a file that is not in the page cache, per second.
double cold_reads(const Format& format, const fs::path& path, std::uint64_t count, bool ahead) {
  const auto index = format.build_index(path, Access::kMap);
  const auto order = random_order(format.open(path, index, Access::kMap)->size());
  count = std::min<std::uint64_t>(count, order.size());
  drop_cache(format.data_file(path));
  const auto reader = format.open(path, index, Access::kMap);
  SampleView sample;
  volatile unsigned sum = 0;
  const double begin = now();
  for (std::uint64_t i = 0; i < count; ++i) {
    if (ahead && i == 0) {
      for (std::uint64_t k = 0; k < std::min(kAhead, count); ++k) reader->will_need(order[k]);
    }
    if (ahead && i + kAhead < count) reader->will_need(order[i + kAhead]);
    reader->read(order[i], sample);
    sum = sum + touch(sample);
  }
  return static_cast<double>(count) / (now() - begin);
}

// With `copy`, each value is copied into one buffer, as into a batch.
double warm_reads(const Format& format, const fs::path& path, int repeats, bool copy = false) {
  const auto index = format.build_index(path, Access::kMap);
  const auto reader = format.open(path, index, Access::kMap);
  const auto order = random_order(reader->size());
  SampleView sample;
  std::vector<std::byte> buffer;
  volatile unsigned sum = 0;
  const auto pass = [&] {
    for (const std::uint64_t n : order) {
      reader->read(n, sample);
      if (copy) buffer.assign(sample.fields[0].bytes.begin(), sample.fields[0].bytes.end());
      sum = sum + static_cast<unsigned>(sample.fields[0].bytes[0]);
    }
  };
  pass();
  return static_cast<double>(order.size()) / median(repeats, pass);
}

void write_sidecar(const Format& format, const fs::path& path) {
  const auto bytes = format.build_index(path, Access::kMap);
  const auto reader = format.open(path, bytes, Access::kMap);
  const internal::IndexEntry entry{reader->size(), internal::stamp_of(format.data_file(path)),
                                   reader->info(), bytes};
  internal::write_index_file(internal::sidecar_path(path), {&entry, 1});
}

void print(const std::map<std::string, double>& out) {
  std::string text;
  for (const auto& [key, value] : out) {
    char number[64];
    std::snprintf(number, sizeof number, "%.6g", value);
    text += (text.empty() ? "{\"" : ", \"") + key + "\": " + number;
  }
  std::printf("%s}\n", text.c_str());
}

int run(const std::string& name, const fs::path& folder, std::uint64_t samples, std::uint64_t size,
        int repeats) {
  const Format& format = find_format(name);
  const std::string suffix(format.suffix());
  const fs::path large = folder / ("large" + suffix);
  const fs::path small = folder / ("small" + suffix);
  const std::string pool = random_bytes(size + 4096);
  std::map<std::string, double> out;
  const auto again = [&](const fs::path& path, const std::function<void()>& make) {
    return median(repeats, make, [&] { fs::remove_all(path); });
  };
  const auto payload = static_cast<double>(samples * size) / 1e6;
  out["write_mb_per_s"] =
      payload / again(large, [&] { write_shard(format, large, samples, size, pool); });
  out["plain_write_mb_per_s"] = payload / again(folder / "plain", [&] {
                                  write_plain(folder / "plain", samples, size, pool);
                                });
  fs::remove(folder / "plain");
  out["warm_reads_per_s"] = warm_reads(format, large, repeats);
  out["cold_reads_per_s"] = cold_reads(format, large, 2000, true);
  out["cold_reads_plain_per_s"] = cold_reads(format, large, 500, false);

  write_shard(format, small, 100'000, 100, pool);
  out["open_100k_ms"] = 1e3 * median(repeats, [&] { Dataset::open(small.string()); });
  out["index_members_per_s"] =
      1e5 / median(repeats, [&] { format.build_index(small, Access::kMap); });
  write_sidecar(format, small);
  out["open_100k_indexed_ms"] = 1e3 * median(repeats, [&] { Dataset::open(small.string()); });
  if (name == "lmdb") {
    write_shard(format, small, 1'000'000, 16, pool);
    out["open_1m_ms"] =
        1e3 * median(repeats, [&] { OpenShard shard(format, small, Access::kMap); });
  }
  if (name == "hdf5") {
    write_shard(format, large, samples, size, pool, true);
    out["vlen_reads_per_s"] = warm_reads(format, large, repeats);
  }
  print(out);
  return 0;
}

// Reads an existing file.
int read_file(const fs::path& path, int repeats) {
  const Format& format = OpenShard(path).format();
  print({{"warm_reads_per_s", warm_reads(format, path, repeats)},
         {"copied_reads_per_s", warm_reads(format, path, repeats, true)}});
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(
        stderr, "usage: formats_bench FORMAT FOLDER [SAMPLES [BYTES [REPEATS]]], or --read FILE\n");
    return 2;
  }
  try {
    if (std::string(argv[1]) == "--read") {
      return read_file(argv[2], argc > 3 ? std::atoi(argv[3]) : 3);
    }
    return run(argv[1], argv[2], argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 4000,
               argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 110'000,
               argc > 5 ? std::atoi(argv[5]) : 3);
  } catch (const shardmill::Error& error) {
    std::fprintf(stderr, "formats_bench: %s\n", error.what());
    return 1;
  }
}
