// SPDX-License-Identifier: Apache-2.0
// Compares ImageDecoder with bare loops of the libraries below it, on files held in memory.
//
// decode_bench FOLDER [REPEATS] [SIZE]: prints one line per kind of work and ratio. Both sides run
// alternately, a few images at a time, so that a busy machine slows both alike.
// decode_bench FOLDER serve: does what each line on its input says, "centre", "random" or "float",
// with all JPEGs once, and answers with the seconds: for comparisons with other programs.
// decode_bench FOLDER write: writes, for all JPEGs (or WebPs) in the order of their paths, the box
// of a random part (four numbers and whether it is flipped, as text), then the pixels of the centre
// crop and of that part: for comparisons of quality.
#include <shardmill/loader/decode/image.h>
#include <turbojpeg.h>
#include <webp/decode.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

// Prints images per second of `work` and its ratio to `bare`, medians over the repeats. The ratio
// is to reach `wanted`, if that is not 0.
void compare(const char* name, const std::vector<File>& files, int repeats, const char* bare_name,
             const Work& bare, const Work& work, double wanted) {
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
  std::printf("%-34s %5zu images  %-14s %7.1f/s  shardmill %7.1f/s  ratio %.3f", name, files.size(),
              bare_name, images / median(bare_seconds), images / median(work_seconds),
              median(ratios));
  if (wanted > 0) std::printf(" of %.2f", wanted);
  std::printf("\n");
  std::fflush(stdout);
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

// What is measured, at one size.
class Subject {
 public:
  explicit Subject(std::uint32_t size, DecodeMode mode = DecodeMode::kFast)
      : size_(size),
        out_(shardmill::imagenet_form().row(size, size).bytes()),
        decoder_({.mode = mode}) {}

  Work cover(const shardmill::PixelForm& form = {}) {
    return [this, form](Bytes file) {
      const auto choose = [this](std::uint32_t width, std::uint32_t height) {
        return shardmill::fit_part(shardmill::Fit::kCover, width, height, size_, size_);
      };
      decoder_.decode_part(file, choose, size_, size_, form, out_.data());
    };
  }
  Work random_crop() {
    return [this](Bytes file) {
      shardmill::Random random(1, 0, draws_++);
      const auto choose = [&](std::uint32_t width, std::uint32_t height) {
        return part_ = shardmill::internal::random_part({}, width, height, random);
      };
      decoder_.decode_part(file, choose, size_, size_, {}, out_.data());
    };
  }
  Work full() {
    return [this](Bytes file) { decoder_.decode_full(file); };
  }
  const shardmill::ImagePart& part() const { return part_; }
  void write() const { std::fwrite(out_.data(), 1, std::size_t{size_} * size_ * 3, stdout); }

 private:
  std::uint32_t size_;
  std::vector<std::byte> out_;
  shardmill::ImageDecoder decoder_;
  std::uint64_t draws_ = 0;
  shardmill::ImagePart part_;
};

int serve(const std::vector<File>& jpegs, std::uint32_t size) {
  Subject subject(size);
  char line[32];
  std::printf("%zu\n", jpegs.size());
  std::fflush(stdout);
  while (std::fgets(line, sizeof(line), stdin) != nullptr) {
    const std::string name(line, std::strcspn(line, "\n"));
    const Work work = name == "random"  ? subject.random_crop()
                      : name == "float" ? subject.cover(shardmill::imagenet_form())
                                        : subject.cover();
    const double start = now();
    for (const File& file : jpegs) work(bytes_of(file));
    std::printf("%.6f\n", now() - start);
    std::fflush(stdout);
  }
  return 0;
}

int write(const std::vector<File>& jpegs, std::uint32_t size) {
  Subject subject(size);
  const Work cover = subject.cover();
  const Work random = subject.random_crop();
  for (const File& file : jpegs) {
    cover(bytes_of(file));
    subject.write();
    random(bytes_of(file));
    const shardmill::ImagePart& part = subject.part();
    std::printf("%.17g %.17g %.17g %.17g %d\n", part.left, part.top, part.right, part.bottom,
                part.flip ? 1 : 0);
    subject.write();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: decode_bench FOLDER [REPEATS | serve | write] [SIZE]\n");
    return 2;
  }
  const std::string what = argc > 2 ? argv[2] : "7";
  const int repeats = std::max(1, std::atoi(what.c_str()));
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
  if (what == "serve") return serve(jpegs, size);
  if (what == "write") return write(jpegs.empty() ? webps : jpegs, size);

  Subject fast(size), exact(size, DecodeMode::kExact);
  BareJpeg bare;
  const Work bare_jpeg = [&](Bytes file) { bare(file); };
  const char* const tj = "libjpeg-turbo";
  compare("JPEG, centre crop", jpegs, repeats, tj, bare_jpeg, fast.cover(), 0.93);
  compare("JPEG, random crop and flip", jpegs, repeats, tj, bare_jpeg, fast.random_crop(), 1.22);
  compare("large JPEG, centre crop", large, repeats, tj, bare_jpeg, fast.cover(), 1.8);
  if (large.empty() && !jpegs.empty()) {
    std::printf("large JPEG, centre crop            skipped: none has %u pixels a side\n", kLarge);
  }
  compare("WebP, centre crop", webps, repeats, "WebPDecodeRGB", bare_webp, fast.cover(), 1.0);
  compare("JPEG, float32 NCHW normalised", jpegs, repeats, "uint8 NHWC", fast.cover(),
          fast.cover(shardmill::imagenet_form()), 0.95);
  compare("JPEG, float16 NCHW normalised", jpegs, repeats, "uint8 NHWC", fast.cover(),
          fast.cover(shardmill::imagenet_form(shardmill::DType::kFloat16)), 0);
  compare("JPEG, centre crop, exact", jpegs, repeats, tj, bare_jpeg, exact.cover(), 0);
  compare("JPEG, full size", jpegs, repeats, tj, bare_jpeg, fast.full(), 0);
  return 0;
}
