// SPDX-License-Identifier: Apache-2.0
// Once it has seen images of a size, a decoder allocates nothing for the next: a program of its
// own, because it replaces operator new. What libjpeg, libwebp and libpng allocate for themselves,
// with malloc, and give back after each image, is not counted: their objects are made anew for
// each, so that nothing of one image is there for the next.
#include <malloc.h>
#include <shardmill/loader/decode/image.h>

#include <cstdlib>
#include <functional>
#include <new>

#include "tests/loader/decode/make_images.h"
#include "tests/support/catch.h"

namespace {
std::size_t allocations = 0;

void* allocate(std::size_t size, std::size_t alignment) {
  ++allocations;
  const std::size_t rounded = (size / alignment + 1) * alignment;
  if (void* const memory = std::aligned_alloc(alignment, rounded)) return memory;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new[](std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

using namespace shardmill;
using namespace shardmill::test;

namespace {

// Decodes every image in every form and fit.
void decode_all(ImageDecoder& decoder, const std::vector<std::string>& images,
                std::vector<std::byte>& out) {
  std::uint32_t number = 0;
  for (const std::string& image : images) {
    for (const Fit fit : {Fit::kCover, Fit::kStretch, Fit::kLetterbox}) {
      for (const Channels channels : {Channels::kRgb, Channels::kGrey, Channels::kRgba}) {
        for (const DType dtype : {DType::kUInt8, DType::kFloat32, DType::kFloat16}) {
          PixelForm form;
          form.channels = channels;
          form.dtype = dtype;
          form.channels_first = number++ % 2 == 0;
          const auto choose = [&](std::uint32_t width, std::uint32_t height) {
            ImagePart part = fit_part(fit, width, height, 48, 40);
            part.flip = number % 3 == 0;
            return part;
          };
          decoder.decode_part(as_bytes(image), std::ref(choose), 48, 40, form, out.data());
        }
      }
    }
    decoder.decode_full(as_bytes(image));
  }
}

}  // namespace

TEST_CASE("Nothing is allocated for an image like those before", "[decode]") {
  std::vector<std::string> images;
  for (unsigned seed = 0; seed < 4; ++seed) {
    JpegLook look;
    look.orientation = 2 * seed + 1;
    look.restart = static_cast<int>(seed);
    images.push_back(make_jpeg(160, 120, seed, look));
    look.progressive = true;
    images.push_back(make_jpeg(160, 120, seed, look));
    images.push_back(make_webp(160, 120, seed, seed % 2 == 0));
    images.push_back(make_png(160, 120, seed));
  }
  std::vector<std::byte> out(
      PixelForm{.channels = Channels::kRgba, .dtype = DType::kFloat32}.row(48, 40).bytes());
  for (const DecodeMode mode : {DecodeMode::kFast, DecodeMode::kExact}) {
    ImageDecoder decoder({.mode = mode});
    decode_all(decoder, images, out);
    REQUIRE(allocations > 0);  // they are counted
    for (int pass = 0; pass < 3; ++pass) {
      const std::size_t before = allocations;
      decode_all(decoder, images, out);
      CHECK(allocations == before);
    }
  }
}

#if !defined(__SANITIZE_ADDRESS__)
TEST_CASE("The heap does not grow with the number of images", "[decode]") {
  const std::vector<std::string> images = {make_jpeg(160, 120, 1), make_webp(160, 120, 1, false),
                                           make_png(160, 120, 1),
                                           make_jpeg(160, 120, 1, {.progressive = true})};
  std::vector<std::byte> out(std::size_t{48} * 40 * 4 * 4);
  ImageDecoder decoder;
  for (int pass = 0; pass < 3; ++pass) decode_all(decoder, images, out);
  const std::size_t before = mallinfo2().uordblks;
  for (int pass = 0; pass < 10; ++pass) decode_all(decoder, images, out);
  CHECK(mallinfo2().uordblks <= before + 1024);
}
#endif
