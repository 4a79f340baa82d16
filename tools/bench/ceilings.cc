// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/ceilings.h"

#include <shardmill/formats/dataset.h>
#include <shardmill/formats/error.h>
#include <shardmill/loader/decode/image.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

namespace shardmill::tools::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostImages = 512;
constexpr std::size_t kMostImageBytes = std::size_t{256} << 20;
constexpr std::size_t kCopyBytes = std::size_t{256} << 20;  // of all threads together
constexpr std::size_t kLeastCopyBytes = std::size_t{16} << 20;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double copy_for(std::size_t bytes, double seconds) {
  std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes, 2);
  const auto begin = Clock::now();
  double copied = 0;
  double spent = 0;
  do {
    std::memcpy(to.data(), from.data(), bytes);
    // The copy is read, so that it cannot be left out.
    from[0] = to[bytes / 2];
    copied += static_cast<double>(bytes);
    spent = since(begin);
  } while (spent < seconds);
  return copied / spent;
}

}  // namespace

double measure_memcpy(int cpus, double seconds) {
  const auto threads = static_cast<std::size_t>(std::max(1, cpus));
  const std::size_t bytes = std::max(kCopyBytes / threads / 2, kLeastCopyBytes);
  std::vector<double> rates(threads);
  {
    std::vector<std::jthread> running;
    for (double& rate : rates) {
      running.emplace_back([&rate, bytes, seconds] { rate = copy_for(bytes, seconds); });
    }
  }
  return std::accumulate(rates.begin(), rates.end(), 0.0) / 1e9;
}

DecodeLoop::DecodeLoop(const Subject& subject) {
  DatasetReader reader(Dataset::open(subject.spec));
  const std::uint64_t step = std::max<std::uint64_t>(1, reader.size() / kMostImages);
  std::size_t bytes = 0;
  SampleView sample;
  for (std::uint64_t n = 0; n < reader.size() && bytes < kMostImageBytes; n += step) {
    reader.read(n, sample);
    const auto image =
        std::find_if(sample.fields.begin(), sample.fields.end(),
                     [](const FieldView& field) { return is_image_field(field.name); });
    if (image == sample.fields.end()) continue;
    images_.emplace_back(image->bytes.begin(), image->bytes.end());
    bytes += image->bytes.size();
  }
}

double DecodeLoop::measure(double seconds, const Observer& observer) {
  if (images_.empty()) return 0;
  ImageDecoder decoder;
  double decoded = 0;
  double spent = 0;
  const auto begin = Clock::now();
  do {
    try {
      decoder.decode_full(images_[next_]);
    } catch (const Error&) {
      // The loader names a damaged image when it comes to it; here it is only no help.
      images_.erase(images_.begin() + static_cast<std::ptrdiff_t>(next_));
      if (images_.empty()) return 0;
      next_ %= images_.size();
      continue;
    }
    next_ = (next_ + 1) % images_.size();
    decoded += 1;
    spent = since(begin);
    check_in(observer, "decoding", static_cast<std::uint64_t>(decoded), 0);
  } while (spent < seconds);
  return decoded / spent;
}

}  // namespace shardmill::tools::bench
