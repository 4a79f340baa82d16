// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/settings.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <charconv>

namespace shardmill::tools::bench {

namespace {

constexpr int kMostWorkers = 256;
constexpr std::uint32_t kMostPixels = 65'535;
constexpr int kEveryNumberTo = 8;

template <class Number>
bool parse_number(std::string_view text, Number& value) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end;
}

}  // namespace

std::string Decode::text() const {
  if (none) return "none";
  return std::to_string(width) + (width == height ? "" : "x" + std::to_string(height));
}

Decode parse_decode(const std::string& text) {
  Decode decode;
  if (text == "none") {
    decode.none = true;
    return decode;
  }
  const std::size_t cross = text.find('x');
  const std::string_view all = text;
  const bool good =
      parse_number(all.substr(0, cross), decode.width) &&
      parse_number(cross == std::string::npos ? all : all.substr(cross + 1), decode.height);
  if (!good || decode.width < 1 || decode.height < 1 || decode.width > kMostPixels ||
      decode.height > kMostPixels) {
    throw Error(ErrorCode::kInvalidArgument, "--decode", {},
                "\"" + escape(text) + "\" is not an image size",
                "give 224, 320x240 or none, for example");
  }
  return decode;
}

std::vector<int> default_workers(int cpus) {
  std::vector<int> workers;
  const int last = 2 * cpus;
  for (int w = 0; w <= std::min(last, kEveryNumberTo); ++w) workers.push_back(w);
  for (int power = kEveryNumberTo; power < last; power *= 2) {
    for (const int w : {power + power / 2, 2 * power, cpus, last}) {
      if (w > power && w <= std::min(2 * power, last)) workers.push_back(w);
    }
  }
  std::sort(workers.begin(), workers.end());
  workers.erase(std::unique(workers.begin(), workers.end()), workers.end());
  std::erase_if(workers, [](int w) { return w > kMostWorkers; });
  return workers;
}

std::vector<int> parse_workers(const std::string& text) {
  std::vector<int> workers;
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    int number = 0;
    if (!parse_number(rest.substr(0, comma), number) || number < 0 || number > kMostWorkers) {
      throw Error(ErrorCode::kInvalidArgument, "--workers", {},
                  "\"" + escape(text) + "\" is not a list of numbers from 0 to " +
                      std::to_string(kMostWorkers),
                  "give 0,1,2, for example");
    }
    workers.push_back(number);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  std::sort(workers.begin(), workers.end());
  workers.erase(std::unique(workers.begin(), workers.end()), workers.end());
  return workers;
}

void check_in(const Observer& observer, std::string_view phase, std::uint64_t samples,
              std::uint64_t bytes) {
  if (observer.progress) {
    observer.progress(
        {.phase = phase, .samples = samples, .total_samples = 0, .bytes = bytes, .total_bytes = 0});
  }
  if (observer.stop.stop_requested()) throw Interrupted();
}

}  // namespace shardmill::tools::bench
