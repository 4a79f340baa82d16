// SPDX-License-Identifier: Apache-2.0
// Compares ImageDecoder with bare loops of the libraries below it, on files held in memory.
//
// decode_bench FOLDER [REPEATS] [SIZE]: prints one line per kind of work and ratio. Both sides run
// alternately, a few images at a time, so that a busy machine slows both alike.
#include <shardmill/loader/decode/image.h>
#include <turbojpeg.h>
#include <webp/decode.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "loader/internal/random_crop.h"

namespace {

namespace fs = std::filesystem;
using shardmill::Bytes;
using shardmill::DecodeMode;
using shardmill::ImageFormat;
using File = std::vector<char>;
using Work = std::function<void(Bytes)>;

constexpr std::size_t kChunk = 16;  // Images that one side does before the other has its turn.
constexpr std::uint32_t kLarge = 2000;

// Processor time of this thread, which other programs on a busy machine disturb least.
double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

Bytes bytes_of(const File& file) { return std::as_bytes(std::span<const char>(file)); }

std::vector<File> read_folder(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<File> files;
  for (const fs::path& path : paths) {
    std::ifstream in(path, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return files;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// Prints images per second of `work` and its ratio to `bare`, medians over the repeats.
void compare(const char* name, const std::vector<File>& files, int repeats, const Work& bare,
             const Work& work) {
  if (files.empty()) return;
  std::vector<double> bare_seconds, work_seconds;
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    double spent[2] = {};
    for (std::size_t from = 0; from < files.size(); from += kChunk) {
      const std::size_t to = std::min(files.size(), from + kChunk);
      for (int turn = 0; turn < 2; ++turn) {
        const int side = (turn + repeat) % 2;
        const double start = now();
        for (std::size_t i = from; i < to; ++i) (side == 0 ? bare : work)(bytes_of(files[i]));
        spent[side] += now() - start;
      }
    }
    if (repeat == 0) continue;  // warm-up
    bare_seconds.push_back(spent[0]);
    work_seconds.push_back(spent[1]);
  }
  std::vector<double> ratios;
  for (std::size_t i = 0; i < bare_seconds.size(); ++i) {
    ratios.push_back(bare_seconds[i] / work_seconds[i]);
  }
  const double images = static_cast<double>(files.size());
  std::printf("%-34s %6zu images  bare %8.1f/s  shardmill %8.1f/s  ratio %.3f\n", name,
              files.size(), images / median(bare_seconds), images / median(work_seconds),
              median(ratios));
}

struct BareJpeg {
  std::unique_ptr<void, int (*)(void*)> handle{tjInitDecompress(), &tjDestroy};
  std::vector<unsigned char> rgb;

  void operator()(Bytes file) {
    const auto* data = reinterpret_cast<const unsigned char*>(file.data());
    int width = 0, height = 0, subsampling = 0, space = 0;
    tjDecompressHeader3(handle.get(), data, file.size(), &width, &height, &subsampling, &space);
    rgb.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
    if (tjDecompress2(handle.get(), data, file.size(), rgb.data(), width, 0, height, TJPF_RGB, 0) !=
        0) {
      std::fprintf(stderr, "tjDecompress2: %s\n", tjGetErrorStr2(handle.get()));
      std::exit(1);
    }
  }
};

void bare_webp(Bytes file) {
  int width = 0, height = 0;
  std::uint8_t* rgb = WebPDecodeRGB(reinterpret_cast<const std::uint8_t*>(file.data()), file.size(),
                                    &width, &height);
  if (rgb == nullptr) std::exit(1);
  WebPFree(rgb);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: decode_bench FOLDER [REPEATS] [SIZE]\n");
    return 2;
  }
  const int repeats = argc > 2 ? std::max(1, std::atoi(argv[2])) : 7;
  const auto size = static_cast<std::uint32_t>(argc > 3 ? std::max(1, std::atoi(argv[3])) : 224);
  std::vector<File> jpegs, large, webps;
  for (File& file : read_folder(argv[1])) {
    const ImageFormat format = shardmill::sniff_image(bytes_of(file));
    if (format == ImageFormat::kWebp) webps.push_back(std::move(file));
    if (format != ImageFormat::kJpeg) continue;
    const shardmill::ImageInfo info = shardmill::probe_image(bytes_of(file));
    if (std::max(info.width, info.height) >= kLarge) large.push_back(file);
    jpegs.push_back(std::move(file));
  }

  std::vector<std::uint8_t> out(std::size_t{size} * size * 3);
  shardmill::ImageDecoder fast;
  shardmill::ImageDecoder exact({.mode = DecodeMode::kExact});
  const auto cover = [&](shardmill::ImageDecoder& decoder) {
    return [&](Bytes file) { decoder.decode_cover(file, size, size, out.data()); };
  };
  std::uint64_t draws = 0;
  const auto random_crop = [&](shardmill::ImageDecoder& decoder) {
    return [&](Bytes file) {
      shardmill::Random random(1, 0, draws++);
      const auto choose = [&](std::uint32_t width, std::uint32_t height) {
        return shardmill::internal::random_part({}, width, height, random);
      };
      decoder.decode_part(file, choose, size, size, out.data());
    };
  };
  BareJpeg bare;
  const Work bare_jpeg = [&](Bytes file) { bare(file); };
  compare("JPEG, centre crop", jpegs, repeats, bare_jpeg, cover(fast));
  compare("JPEG, centre crop, exact", jpegs, repeats, bare_jpeg, cover(exact));
  compare("JPEG, full size", jpegs, repeats, bare_jpeg,
          [&](Bytes file) { fast.decode_full(file); });
  compare("large JPEG, centre crop", large, repeats, bare_jpeg, cover(fast));
  compare("JPEG, random crop and flip", jpegs, repeats, bare_jpeg, random_crop(fast));
  compare("WebP, centre crop", webps, repeats, bare_webp, cover(fast));
  return 0;
}
