// SPDX-License-Identifier: Apache-2.0
// Masks and geometry follow their image: every pixel of a mask says where it came from, and colours
// of the image say the same.
#include <png.h>
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>
#include <shardmill/loader/decode/encoder.h>
#include <shardmill/loader/decode/labels.h>
#include <shardmill/loader/loader.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/loader/decode/make_images.h"
#include "tests/loader/loader_test_data.h"
#include "tests/support/catch.h"
#include "tests/support/support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

constexpr std::uint32_t kWidth = 100;  // of all images, as shown
constexpr std::uint32_t kHeight = 80;

void append(png_structp png, png_bytep data, std::size_t size) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<char*>(data), size);
}

// A PNG of one channel with these values, as they are.
std::string label_png(std::uint32_t width, std::uint32_t height, int depth, bool palette,
                      const std::vector<std::uint16_t>& values, bool interlaced = false) {
  std::string out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &out, append, nullptr);
  png_set_IHDR(png, info, width, height, depth,
               palette ? PNG_COLOR_TYPE_PALETTE : PNG_COLOR_TYPE_GRAY,
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> colors(palette ? std::size_t{1} << depth : 0, png_color{9, 200, 77});
  if (palette) png_set_PLTE(png, info, colors.data(), static_cast<int>(colors.size()));
  png_write_info(png, info);
  png_set_packing(png);
  png_set_swap(png);
  std::vector<std::vector<std::uint8_t>> rows(height);
  std::vector<png_bytep> pointers;
  for (std::uint32_t y = 0; y < height; ++y) {
    for (std::uint32_t x = 0; x < width; ++x) {
      const unsigned value = values[y * width + x];
      rows[y].push_back(static_cast<std::uint8_t>(value));
      if (depth == 16) rows[y].push_back(static_cast<std::uint8_t>(value >> 8));
    }
    pointers.push_back(rows[y].data());
  }
  png_write_image(png, pointers.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return out;
}

// Every pixel its own number.
std::vector<std::uint16_t> numbered() {
  std::vector<std::uint16_t> values(std::size_t{kWidth} * kHeight);
  std::iota(values.begin(), values.end(), std::uint16_t{0});
  return values;
}

// An image whose red is the column and whose green is the row, as shown, stored for `orientation`.
std::string gradient(std::uint32_t orientation, ImageFormat format) {
  const bool turned = orientation >= 5;
  const std::uint32_t width = turned ? kHeight : kWidth;
  const std::uint32_t height = turned ? kWidth : kHeight;
  std::vector<std::uint8_t> pixels(std::size_t{width} * height * 3);
  for (std::uint32_t y = 0; y < height; ++y) {
    for (std::uint32_t x = 0; x < width; ++x) {
      // Where the EXIF standard shows the stored pixel (x, y).
      const std::uint32_t from_right = width - 1 - x;
      const std::uint32_t from_bottom = height - 1 - y;
      const std::pair<std::uint32_t, std::uint32_t> shown[] = {
          {x, y}, {from_right, y},  {from_right, from_bottom}, {x, from_bottom},
          {y, x}, {from_bottom, x}, {from_bottom, from_right}, {y, from_right}};
      const auto [column, row] = shown[orientation - 1];
      std::uint8_t* const pixel = &pixels[(std::size_t{y} * width + x) * 3];
      pixel[0] = static_cast<std::uint8_t>(2 * column);
      pixel[1] = static_cast<std::uint8_t>(2 * row);
      pixel[2] = 100;
    }
  }
  std::vector<std::byte> bytes;
  encode_image({pixels.data(), width, height, 3}, {format, 100, true}, bytes);
  std::string out(as_text(bytes));
  if (orientation > 1) {
    const std::string exif = make_exif(orientation, true);
    const auto length = static_cast<unsigned>(exif.size() + 2);
    out.insert(2, std::string("\xFF\xE1") + static_cast<char>(length >> 8) +
                      static_cast<char>(length & 255) + exif);
  }
  return out;
}

std::string make_data(const TemporaryFolder& folder) {
  const std::string path = (folder / "data.tar").string();
  const auto writer = find_format("tar").create(path, {});
  for (std::uint32_t n = 0; n < 24; ++n) {
    Sample sample("s" + std::to_string(100 + n));
    const ImageFormat format = n % 3 == 1 ? ImageFormat::kPng : ImageFormat::kJpeg;
    sample.add("jpg", n % 3 == 2   ? gradient(1, ImageFormat::kWebp)
                      : n % 3 == 1 ? gradient(1, format)
                                   : gradient(1 + n / 3 % 8, format));
    sample.add("seg.png", label_png(kWidth, kHeight, 16, false, numbered(), n % 2 == 0));
    writer->write(sample.view());
  }
  writer->close();
  return path;
}

template <typename T>
T element(const BatchOutput& output, std::size_t at) {
  T value;
  std::memcpy(&value, output.data.data() + at * sizeof(T), sizeof(T));
  return value;
}

// A point of the output in the image, by the row of the geometry output.
struct Geometry {
  float row[8];
  double column(double x) const { return (x - row[4]) / row[2]; }
  double line(double y) const { return (y - row[7]) / row[6]; }
};

void check_row(const Batch& batch, std::size_t row, std::uint32_t width, std::uint32_t height) {
  Geometry geometry;
  std::memcpy(geometry.row, batch["geometry"].data.data() + row * sizeof geometry.row,
              sizeof geometry.row);
  REQUIRE(geometry.row[0] == kWidth);
  REQUIRE(geometry.row[1] == kHeight);
  REQUIRE(geometry.row[3] == 0);
  REQUIRE(geometry.row[5] == 0);
  const double across = std::abs(geometry.row[2]);
  std::size_t inside = 0;
  for (std::uint32_t y = 0; y < height; ++y) {
    for (std::uint32_t x = 0; x < width; ++x) {
      const std::size_t at = (row * height + y) * width + x;
      const double column = geometry.column(x + 0.5);
      const double line = geometry.line(y + 0.5);
      const auto label = element<std::uint16_t>(batch["mask"], at);
      if (column < 0 || line < 0 || column >= kWidth || line >= kHeight) {
        REQUIRE(label == 255);
        continue;
      }
      REQUIRE(std::abs(label % kWidth + 0.5 - column) <= 0.5001);
      REQUIRE(std::abs(label / kWidth + 0.5 - line) <= 0.5001);
      // At the edges resizing leans inwards.
      const double margin = 2 + 1 / across;
      if (column < margin || line < margin || column > kWidth - margin || line > kHeight - margin) {
        continue;
      }
      ++inside;
      const auto red = element<std::uint8_t>(batch["image"], 3 * at);
      const auto green = element<std::uint8_t>(batch["image"], 3 * at + 1);
      REQUIRE(std::abs(red / 2.0 + 0.5 - column) * across < 0.9 + 1.6 * across);
      REQUIRE(std::abs(green / 2.0 + 0.5 - line) * geometry.row[6] < 0.9 + 1.6 * across);
    }
  }
  REQUIRE(inside > 0);
}

}  // namespace

TEST_CASE("Labels are the integers that PNGs store", "[mask]") {
  LabelDecoder decoder;
  for (const bool palette : {false, true}) {
    for (const int depth : {1, 2, 4, 8, 16}) {
      if (palette && depth == 16) continue;
      for (const bool interlaced : {false, true}) {
        std::vector<std::uint16_t> values(37 * 11);
        for (std::size_t i = 0; i < values.size(); ++i) {
          values[i] = static_cast<std::uint16_t>(i * 12'347 & ((1U << depth) - 1));
        }
        const std::string png = label_png(37, 11, depth, palette, values, interlaced);
        const LabelImage& labels = decoder.decode(as_bytes(png));
        CAPTURE(depth, palette, interlaced);
        REQUIRE(labels.type == ArrayType{depth == 16 ? DType::kUInt16 : DType::kUInt8, {11, 37}});
        for (std::size_t i = 0; i < values.size(); ++i) {
          std::uint16_t value = 0;
          std::memcpy(&value, labels.data.data() + i * dtype_size(labels.type.dtype),
                      dtype_size(labels.type.dtype));
          REQUIRE(value == values[i]);
        }
      }
    }
  }
  const auto refusal = [&](const std::string& bytes) {
    return error_of([&] { decoder.decode(as_bytes(bytes)); });
  };
  CHECK(refusal(make_jpeg(8, 8, 1)).cause ==
        "labels in a file of format jpeg, only PNG and arrays keep them");
  CHECK(refusal(make_png(8, 8, 1)).cause == "labels of 3 channels, they have one");
  CHECK(refusal("").code == ErrorCode::kDataLoss);
  const std::string whole = label_png(kWidth, kHeight, 16, false, numbered());
  CHECK(refusal(whole.substr(0, whole.size() / 2)).code == ErrorCode::kDataLoss);
  CHECK(error_of([&] { decoder.decode(as_bytes(whole), 100); }).code ==
        ErrorCode::kResourceExhausted);
}

TEST_CASE("Masks and geometry follow the image", "[mask]") {
  TemporaryFolder folder;
  const std::string path = make_data(folder);
  LoaderOptions with;
  with.batch_size = 8;
  with.shuffle = Shuffle::kFull;
  with.seed = 5;
  for (const auto& [width, height] :
       {std::pair{48U, 48U}, std::pair{64U, 40U}, std::pair{150U, 90U}}) {
    const Output images[] = {image_output("image", width, height, "jpg"),
                             fitted_image_output("image", width, height, Fit::kStretch, "jpg"),
                             fitted_image_output("image", width, height, Fit::kLetterbox, "jpg"),
                             random_crop_output("image", width, height, {}, "jpg")};
    for (const Output& image : images) {
      CAPTURE(width, height, static_cast<int>(image.fit), image.crop.has_value());
      with.outputs = {image, mask_output("mask", "seg.png", "image", DType::kUInt16),
                      geometry_output("geometry", "image")};
      with.num_workers = 0;
      Loader loader(path, with);
      for (const Batch& batch : loader.epoch(0)) {
        REQUIRE(batch["mask"].row.shape.size() == 2);
        for (std::size_t row = 0; row < batch.size(); ++row) check_row(batch, row, width, height);
      }
    }
  }
  // Channels first and a fixed own size; and the same batches from workers.
  PixelForm first;
  first.channels_first = true;
  with.outputs = {with_pixels(image_output("image", 0, 0, "jpg"), first),
                  mask_output("mask", "seg.png", "image", DType::kInt64),
                  geometry_output("geometry", "image")};
  with.num_workers = 0;
  Loader whole(path, with);
  const Batch batch = whole.replay(0, 3);
  REQUIRE(batch["mask"].row.shape == std::vector<std::uint64_t>{kHeight, kWidth});
  for (std::size_t i = 0; i < std::size_t{kWidth} * kHeight; ++i) {
    REQUIRE(element<std::int64_t>(batch["mask"], i) == static_cast<std::int64_t>(i));
  }
  CHECK(element<float>(batch["geometry"], 2) == 1);
  CHECK(element<float>(batch["geometry"], 4) == 0);
  with.outputs = {random_crop_output("image", 32, 32, {}, "jpg"),
                  mask_output("mask", "seg.png", "image", DType::kUInt16),
                  geometry_output("geometry", "image")};
  Loader reference(path, with);
  with.num_workers = 3;
  Loader workers(path, with);
  CHECK(load_all(workers, {0, 1}) == load_all(reference, {0, 1}));
}

TEST_CASE("Masks are what Pillow's nearest resizing gives", "[mask]") {
  if (run_command("/usr/bin/python3 -c 'import PIL, numpy'").status != 0) {
    return skip("no Pillow to compare with");
  }
  TemporaryFolder folder;
  std::vector<std::uint16_t> values(std::size_t{kWidth} * kHeight);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::uint16_t>(i * 7919 % 251);
  }
  const std::string path = (folder / "data.tar").string();
  {
    const auto writer = find_format("tar").create(path, {});
    Sample sample("s");
    sample.add("jpg", gradient(1, ImageFormat::kPng));
    sample.add("seg.png", label_png(kWidth, kHeight, 8, true, values));
    writer->write(sample.view());
    writer->close();
  }
  write_text(folder / "mask.png", label_png(kWidth, kHeight, 8, true, values));
  write_text(folder / "p.py",
             "import sys\nfrom PIL import Image\nim = Image.open(sys.argv[1])\n"
             "w, h = int(sys.argv[2]), int(sys.argv[3])\n"
             "s = min(im.width / w, im.height / h)\n"
             "x, y = (im.width - w * s) / 2, (im.height - h * s) / 2\n"
             "box = (x, y, im.width - x, im.height - y)\n"
             "sys.stdout.buffer.write(im.resize((w, h), Image.NEAREST, box=box).tobytes())\n");
  // Sizes at which no centre of a pixel falls between two others: there Pillow adds up steps.
  for (const auto& [width, height] :
       {std::pair{48U, 48U}, std::pair{32U, 64U}, std::pair{224U, 160U}}) {
    LoaderOptions with;
    with.outputs = {image_output("image", width, height, "jpg"),
                    mask_output("mask", "seg.png", "image")};
    with.batch_size = 1;
    with.num_workers = 0;
    Loader loader(path, with);
    const Batch batch = loader.replay(0, 0);
    const CommandResult pillow = run_command("/usr/bin/python3 " + (folder / "p.py").string() +
                                             " " + (folder / "mask.png").string() + " " +
                                             std::to_string(width) + " " + std::to_string(height));
    REQUIRE(pillow.status == 0);
    CAPTURE(width, height);
    CHECK((as_text(batch["mask"].data) == pillow.out));
  }
}

TEST_CASE("Loaders show cut images if they are told to, and count them", "[loader]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  {
    const auto writer = find_format("tar").create(path, {});
    for (int n = 0; n < 6; ++n) {
      Sample sample("s" + std::to_string(n));
      JpegLook look;
      look.orientation = 6;
      const std::string image = make_jpeg(kWidth, kHeight, 1, look);
      sample.add("jpg", n % 3 == 0 ? image.substr(0, image.size() / 2) : image);
      writer->write(sample.view());
    }
    writer->close();
  }
  LoaderOptions with;
  with.batch_size = 3;
  with.apply_orientation = false;
  with.outputs = {image_output("image", 0, 0, "jpg"), geometry_output("geometry", "image")};
  for (const int workers : {0, 2}) {
    with.num_workers = workers;
    with.allow_truncated = true;
    Loader loader(path, with);
    std::size_t samples = 0;
    for (const Batch& batch : loader.epoch(0)) {
      samples += batch.size();
      CHECK(batch["image"].row.shape == std::vector<std::uint64_t>{kHeight, kWidth, 3});
      CHECK(element<float>(batch["geometry"], 0) == kWidth);
    }
    CHECK(samples == 6);
    CHECK(loader.stats().truncated >= 2);  // workers are ahead
    if (workers == 0) CHECK(loader.stats().truncated == 2);
    with.allow_truncated = false;
    Loader strict(path, with);
    CHECK(error_of([&] {
            for (const Batch& batch : strict.epoch(0)) (void)batch;
          }).code == ErrorCode::kDataLoss);
    with.max_pixels = 100;
    Loader limited(path, with);
    CHECK(error_of([&] {
            for (const Batch& batch : limited.epoch(0)) (void)batch;
          }).code == ErrorCode::kResourceExhausted);
    with.max_pixels = 1'000'000;
  }
}

TEST_CASE("Masks that cannot follow are refused", "[mask]") {
  TemporaryFolder folder;
  const std::string path = (folder / "data.tar").string();
  {
    const auto writer = find_format("tar").create(path, {});
    Sample sample("s");
    sample.add("jpg", gradient(1, ImageFormat::kJpeg));
    sample.add("seg.png", label_png(kWidth, kHeight, 16, false, numbered()));
    sample.add("small.png", label_png(10, 10, 8, false, std::vector<std::uint16_t>(100, 3)));
    std::vector<std::int32_t> numbers(std::size_t{kWidth} * kHeight);
    std::iota(numbers.begin(), numbers.end(), -5);
    const ArrayType type{DType::kInt32, {kHeight, kWidth}};
    sample.add("lab.npy",
               npy_header(type) + std::string(as_text(std::as_bytes(std::span(numbers)))));
    writer->write(sample.view());
    writer->close();
  }
  LoaderOptions with;
  with.batch_size = 1;
  with.num_workers = 0;
  const auto error = [&](std::vector<Output> outputs) {
    return error_of([&] {
      with.outputs = std::move(outputs);
      Loader loader(path, with);
      for (const Batch& batch : loader.epoch(0)) (void)batch;
    });
  };
  const Output image = image_output("image", 0, 0, "jpg");
  CHECK(error({image, mask_output("mask", "small.png", "image")}).cause ==
        "mask of 10x10 pixels, its image has 100x80");
  CHECK(error({image, mask_output("mask", "seg.png", "image")}).code ==
        ErrorCode::kInvalidArgument);  // 256 is no uint8
  CHECK(error({image, mask_output("mask", "seg.png", "photo")}).place ==
        "loader option outputs[1].image");
  CHECK(error({geometry_output("geometry", "image"), image}).place ==
        "loader option outputs[0].image");
  CHECK(error({image, mask_output("mask", "seg.png", "image", DType::kFloat32)}).place ==
        "loader option outputs[1].row.dtype");
  CHECK(error({image, mask_output("mask", "seg.png", "image", DType::kInt8, 255)}).place ==
        "loader option outputs[1].border");
  with.outputs = {image, mask_output("mask", "lab.npy", "image", DType::kInt64)};
  Loader loader(path, with);
  const Batch batch = loader.replay(0, 0);
  CHECK(element<std::int64_t>(batch["mask"], 0) == -5);
  CHECK(element<std::int64_t>(batch["mask"], 7999) == 7994);
}
