// SPDX-License-Identifier: Apache-2.0
#include "tests/loader/decode/reference.h"

#include <shardmill/formats/digest.h>
#include <shardmill/loader/decode/image.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "tests/support/catch.h"
#include "tests/support/support.h"

namespace shardmill::test {

namespace fs = std::filesystem;

namespace {

std::string run_reference(const std::string& arguments, const std::vector<fs::path>& files) {
  TemporaryFolder folder;
  std::string list;
  for (const fs::path& file : files) list += file.string() + "\n";
  write_text(folder / "list", list);
  const CommandResult result =
      run_command("/usr/bin/python3 " SHARDMILL_SOURCE_DIR "/tests/loader/decode/reference.py " +
                  arguments + " < '" + (folder / "list").string() + "'");
  if (result.status != 0) throw std::runtime_error("reference.py: " + result.err);
  return result.out;
}

double psnr(const std::uint8_t* a, const std::uint8_t* b, std::size_t size) {
  double sum = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const double difference = double{1} * a[i] - b[i];
    sum += difference * difference;
  }
  return sum == 0 ? 99 : 10 * std::log10(255.0 * 255.0 * static_cast<double>(size) / sum);
}

struct Quality {
  double mean = 0;
  double worst = 99;
  std::size_t equal = 0;
};

Quality compare(const std::vector<fs::path>& files, DecodeMode mode, std::uint32_t width,
                std::uint32_t height) {
  const std::string want = reference_cover(files, width, height);
  const std::size_t size = std::size_t{width} * height * 3;
  REQUIRE(want.size() == size * files.size());
  ImageDecoder decoder({.mode = mode});
  std::vector<std::uint8_t> got(size);
  Quality quality;
  for (std::size_t i = 0; i < files.size(); ++i) {
    decoder.decode_cover(as_bytes(read_text(files[i])), width, height, got.data());
    const auto* reference = reinterpret_cast<const std::uint8_t*>(want.data() + i * size);
    const double value = psnr(got.data(), reference, size);
    if (value < 26) UNSCOPED_INFO(files[i] << ": " << value << " dB");
    if (value == 99) ++quality.equal;
    if (mode == DecodeMode::kExact && value != 99) UNSCOPED_INFO(files[i] << ": not equal");
    quality.mean += value / static_cast<double>(files.size());
    quality.worst = std::min(quality.worst, value);
  }
  return quality;
}

}  // namespace

bool has_reference() { return run_command("/usr/bin/python3 -c 'import numpy, PIL'").status == 0; }

std::vector<fs::path> make_reference_images(const fs::path& folder) {
  std::istringstream lines(run_reference("make '" + folder.string() + "'", {}));
  std::vector<fs::path> files;
  for (std::string line; std::getline(lines, line);) files.emplace_back(line);
  return files;
}

std::map<std::string, ReferencePixels> reference_full(const std::vector<fs::path>& files) {
  std::istringstream lines(run_reference("full", files));
  std::map<std::string, ReferencePixels> pixels;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string path;
    std::getline(fields, path, '\t');
    ReferencePixels& entry = pixels[path];
    fields >> entry.width >> entry.height >> entry.rgb_sha256;
  }
  return pixels;
}

std::string reference_cover(const std::vector<fs::path>& files, std::uint32_t width,
                            std::uint32_t height) {
  return run_reference("cover " + std::to_string(width) + " " + std::to_string(height), files);
}

TEST_CASE("Full-size pixels equal Pillow's bit for bit", "[decode]") {
  if (!has_reference()) return skip("no Pillow");
  TemporaryFolder folder;
  const std::vector<fs::path> files = make_reference_images(folder.path());
  const auto want = reference_full(files);
  REQUIRE(files.size() > 50);
  REQUIRE(want.size() == files.size());
  ImageDecoder decoder;
  for (const fs::path& file : files) {
    CAPTURE(file);
    const ReferencePixels& reference = want.at(file.string());
    const std::string image = read_text(file);
    const ImageDecoder::Pixels pixels = decoder.decode_full(as_bytes(image));
    CHECK(pixels.width == reference.width);
    CHECK(pixels.height == reference.height);
    CHECK(sha256_hex(std::as_bytes(pixels.rgb)) == reference.rgb_sha256);
    const ImageInfo info = probe_image(as_bytes(image));
    CHECK(info.width == reference.width);
    CHECK(info.height == reference.height);
  }
}

TEST_CASE("Resized pixels equal Pillow's, exact, or come close, fast", "[decode]") {
  if (!has_reference()) return skip("no Pillow");
  TemporaryFolder folder;
  const std::vector<fs::path> files = make_reference_images(folder.path());
  struct Target {
    std::uint32_t width, height;
  };
  for (const Target target : {Target{224, 224}, {64, 96}, {640, 480}}) {
    CAPTURE(target.width, target.height);
    const Quality exact = compare(files, DecodeMode::kExact, target.width, target.height);
    CHECK(exact.equal == files.size());
    const Quality fast = compare(files, DecodeMode::kFast, target.width, target.height);
    CHECK(fast.mean >= 40);
    CHECK(fast.worst >= 26);
  }
}

TEST_CASE("Photographs come close to Pillow's resize", "[decode]") {
  const fs::path photos = shared_path("photos");
  if (photos.empty()) return skip("no folder of photographs");
  if (!has_reference()) return skip("no Pillow");
  std::vector<fs::path> all, files;
  for (const auto& entry : fs::recursive_directory_iterator(photos)) {
    if (entry.is_regular_file()) all.push_back(entry.path());
  }
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); i += 4) files.push_back(all[i]);
  const Quality fast = compare(files, DecodeMode::kFast, 224, 224);
  CHECK(fast.mean >= 35);
  CHECK(fast.worst >= 26);
  CHECK(compare(files, DecodeMode::kExact, 224, 224).equal == files.size());
}

}  // namespace shardmill::test
