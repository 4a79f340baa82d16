// SPDX-License-Identifier: Apache-2.0
// Makes a folder of class directories with images that cost what photographs cost: sizes, bytes and
// entropy are like those of common photo collections. Equal options give equal files.
//
//   make_photos FOLDER [--count 3000] [--classes 4] [--seed 1]
#include <png.h>
#include <webp/encode.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// Needs <cstdio> before it.
#include <jpeglib.h>

#include "photo_painter.h"

namespace {

namespace fs = std::filesystem;

void save(const fs::path& path, const void* data, std::size_t size) {
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  file.close();
  if (!file) throw std::runtime_error(path.string() + ": cannot write");
}

void save_jpeg(const fs::path& path, const Image& image, int quality) {
  jpeg_compress_struct encoder;
  jpeg_error_mgr errors;
  encoder.err = jpeg_std_error(&errors);
  jpeg_create_compress(&encoder);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&encoder, &data, &size);
  encoder.image_width = static_cast<JDIMENSION>(image.width);
  encoder.image_height = static_cast<JDIMENSION>(image.height);
  encoder.input_components = 3;
  encoder.in_color_space = JCS_RGB;
  jpeg_set_defaults(&encoder);
  jpeg_set_quality(&encoder, quality, TRUE);
  jpeg_start_compress(&encoder, TRUE);
  while (encoder.next_scanline < encoder.image_height) {
    auto* row = const_cast<JSAMPROW>(
        &image.rgb[std::size_t(encoder.next_scanline) * std::size_t(image.width) * 3]);
    jpeg_write_scanlines(&encoder, &row, 1);
  }
  jpeg_finish_compress(&encoder);
  jpeg_destroy_compress(&encoder);
  save(path, data, size);
  std::free(data);
}

void save_webp(const fs::path& path, const Image& image, float quality) {
  WebPConfig config;
  WebPPicture picture;
  WebPMemoryWriter writer;
  WebPConfigPreset(&config, WEBP_PRESET_PHOTO, quality);
  config.method = 3;
  WebPPictureInit(&picture);
  WebPMemoryWriterInit(&writer);
  picture.width = image.width;
  picture.height = image.height;
  picture.writer = WebPMemoryWrite;
  picture.custom_ptr = &writer;
  const bool done = WebPPictureImportRGB(&picture, image.rgb.data(), image.width * 3) != 0 &&
                    WebPEncode(&config, &picture) != 0;
  WebPPictureFree(&picture);
  if (done) save(path, writer.mem, writer.size);
  WebPMemoryWriterClear(&writer);
  if (!done) throw std::runtime_error(path.string() + ": cannot encode WebP");
}

void save_png(const fs::path& path, const Image& image) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width);
  header.height = static_cast<png_uint_32>(image.height);
  header.format = PNG_FORMAT_RGB;
  header.flags = PNG_IMAGE_FLAG_FAST;
  if (png_image_write_to_file(&header, path.c_str(), 0, image.rgb.data(), 0, nullptr) == 0) {
    throw std::runtime_error(path.string() + ": " + header.message);
  }
}

struct Options {
  fs::path folder;
  int count = 3000;
  int classes = 4;
  std::uint64_t seed = 1;
};

std::string class_name(int label) {
  static const char* const kNames[] = {"amber", "basil", "coral", "denim", "ebony",
                                       "fawn",  "grape", "hazel", "ivory", "jade"};
  const std::string name = kNames[label % 10];
  return label < 10 ? name : name + "_" + std::to_string(label / 10);
}

// Image `n`, whatever thread makes it. Of 20 images 1 is a PNG (they are large) and 5 are WebPs.
void make_image(const Options& options, const PhotoPainter& painter, int n) {
  Random random(options.seed * 1000003 + static_cast<std::uint64_t>(n));
  const int label = n % options.classes;
  const Image image = painter.paint(random, label, options.classes);
  char file[32];
  std::snprintf(file, sizeof file, "%06d", n);
  const fs::path stem = options.folder / class_name(label) / file;
  const int kind = random.below(20);
  if (kind == 0) {
    save_png(stem.string() + ".png", image);
  } else if (kind <= 5) {
    save_webp(stem.string() + ".webp", image, random.real(84, 95));
  } else {
    save_jpeg(stem.string() + ".jpg", image, 88 + random.below(8));
  }
}

void make_all(const Options& options) {
  if (fs::exists(options.folder) && !fs::is_empty(options.folder)) {
    throw std::runtime_error(options.folder.string() + ": is not empty; name a new folder");
  }
  const PhotoPainter painter(options.seed);
  for (int label = 0; label < options.classes; ++label) {
    fs::create_directories(options.folder / class_name(label));
  }
  std::atomic<int> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    try {
      for (int n = next++; n < options.count; n = next++) make_image(options, painter, n);
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      next = options.count;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = std::max(1u, std::thread::hardware_concurrency()); i > 0; --i) {
    threads.emplace_back(work);
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

// False if the command line is not understood.
bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) {
      if (!options.folder.empty()) return false;
      options.folder = word;
      continue;
    }
    const long long number = i + 1 < argc ? std::atoll(argv[++i]) : 0;
    if (number < 1 || number > 10'000'000) return false;
    if (word == "--count") {
      options.count = static_cast<int>(number);
    } else if (word == "--classes") {
      options.classes = static_cast<int>(number);
    } else if (word == "--seed") {
      options.seed = static_cast<std::uint64_t>(number);
    } else {
      return false;
    }
  }
  return !options.folder.empty();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::cerr << "usage: make_photos FOLDER [--count 3000] [--classes 4] [--seed 1]\n";
    return 2;
  }
  try {
    make_all(options);
  } catch (const std::exception& error) {
    std::cerr << "make_photos: " << error.what() << '\n';
    return 1;
  }
}
