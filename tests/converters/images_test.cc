// SPDX-License-Identifier: Apache-2.0
// Images that are made smaller or encoded again.
#include <shardmill/converters/convert.h>
#include <shardmill/loader/decode/image.h>

#include "tests/converters/data.h"
#include "tests/support/catch.h"

using namespace shardmill;
using namespace shardmill::test;
namespace fs = std::filesystem;

namespace {

// Per format one large image (80 × 60) and one small one (24 × 20), a mask beside each.
void make_images(const fs::path& folder) {
  const CommandResult made = run_command(
      "/usr/bin/python3 - '" + folder.string() +
      "' <<'E'\nimport os, sys, numpy as np\nfrom PIL import Image\n"
      "r = np.random.default_rng(1)\nos.makedirs(sys.argv[1])\n"
      "for e in ('jpg', 'png', 'webp'):\n"
      "  for name, h, w in (('large', 15, 20), ('small', 5, 6)):\n"
      "    p = np.kron(r.integers(0, 255, (h, w, 3)), np.ones((4, 4, 1))).astype('u1')\n"
      "    Image.fromarray(p).save(f'{sys.argv[1]}/{name}{e}.{e}')\n"
      "    Image.fromarray(p[..., 0]).save(f'{sys.argv[1]}/{name}{e}.seg.png')\nE");
  REQUIRE(made.err == "");
}

struct Seen {
  std::string field;
  ImageInfo info;
  std::string bytes;
};

// The images of a dataset by key.
std::map<std::string, Seen> images_of(const fs::path& dataset) {
  DatasetReader reader(Dataset::open(dataset.string()));
  std::map<std::string, Seen> images;
  SampleView sample;
  for (std::uint64_t n = 0; n < reader.size(); ++n) {
    reader.read(n, sample);
    CHECK(sample.find("seg.png") != nullptr);
    for (const FieldView& field : sample.fields) {
      if (field.name == "seg.png" || !is_image_field(field.name)) continue;
      images[std::string(sample.key)] = {std::string(field.name), probe_image(field.bytes),
                                         std::string(as_text(field.bytes))};
    }
  }
  return images;
}

std::vector<std::uint64_t> raw_shape_of(const fs::path& dataset) {
  for (const FieldSpec& field : load_manifest(dataset / "manifest.json").fields) {
    if (field.name == "npy") return field.array.shape;
  }
  return {};
}

}  // namespace

TEST_CASE("The shorter side is reduced, never enlarged, in the image's own format", "[images]") {
  TemporaryFolder folder;
  make_images(folder / "raw");
  const auto raw = images_of(folder / "raw");
  auto options = options_for(folder / "raw", folder / "out", "tar");
  options.image_shorter = 30;
  convert(options);
  const auto made = images_of(folder / "out");
  REQUIRE(made.size() == 6);
  for (const auto& [key, image] : made) {
    INFO(key);
    CHECK(image.field == raw.at(key).field);
    CHECK(image.info.format == raw.at(key).info.format);
    if (key.starts_with("small")) {
      CHECK(image.bytes == raw.at(key).bytes);  // nothing to do about it
    } else {
      CHECK(image.info.width == 40);
      CHECK(image.info.height == 30);
    }
  }
  CHECK(verify((folder / "out").string(), {.decode = true}).ok());
}

TEST_CASE("Images are encoded again in one format and size, the same for any jobs", "[images]") {
  TemporaryFolder folder;
  make_images(folder / "raw");
  const std::vector<std::tuple<ImageOutput, std::string, ImageFormat>> targets = {
      {ImageOutput::kJpeg, "jpg", ImageFormat::kJpeg},
      {ImageOutput::kWebp, "webp", ImageFormat::kWebp},
      {ImageOutput::kPng, "png", ImageFormat::kPng}};
  for (const auto& [output, field, format] : targets) {
    for (const char* to : {"tar", "lmdb", "hdf5", "folder"}) {
      INFO(field << " in " << to);
      auto options = options_for(folder / "raw", folder / "out", to);
      options.image_output = output;
      options.image_size = ImageSize{16, 12};
      options.quality = 75;
      options.shard_samples = 2;
      convert(options);
      for (const auto& [key, image] : images_of(folder / "out")) {
        CHECK(image.field == field);
        CHECK(image.info.format == format);
        CHECK(image.info.width == 16);
        CHECK(image.info.height == 12);
      }
      const auto expected = tree(folder / "out");
      fs::remove_all(folder / "out");
      options.jobs = 3;
      convert(options);
      CHECK(tree(folder / "out") == expected);
      options.destination = folder / "coarse";
      options.quality = 20;
      if (output == ImageOutput::kJpeg) {
        CHECK(convert(options).content_digest !=
              load_manifest(folder / "out/manifest.json").content_digest);
      }
      fs::remove_all(folder / "coarse");
      fs::remove_all(folder / "out");
    }
  }
}

TEST_CASE("Raw arrays need equal sizes and say which sample breaks it", "[images]") {
  TemporaryFolder folder;
  make_images(folder / "raw");
  auto options = options_for(folder / "raw", folder / "out", "hdf5");
  options.image_output = ImageOutput::kRaw;
  const ErrorInfo error = error_of([&] { convert(options); });
  CHECK(error.code == ErrorCode::kUnsupported);
  CHECK(error.place == "sample \"smalljpg\" field \"jpg\"");
  CHECK(error.cause == "is 24x20 pixels, those before it 80x60");
  fs::remove_all(folder / "out");
  for (const auto& entry : fs::directory_iterator(folder / "raw")) {
    if (entry.path().filename().string().starts_with("small")) fs::remove(entry.path());
  }
  options.image_shorter = 30;
  convert(options);
  CHECK(raw_shape_of(folder / "out") == std::vector<std::uint64_t>{30, 40, 3});
}

TEST_CASE("--check decode finds images that are damaged where bytes are kept", "[images]") {
  TemporaryFolder folder;
  make_images(folder / "raw");
  const std::string image = read_text(folder / "raw/largejpg.jpg");
  write_text(folder / "raw/largejpg.jpg", image.substr(0, image.size() / 2));
  auto options = options_for(folder / "raw", folder / "out", "lmdb");
  convert(options);  // bytes are bytes
  options.destination = folder / "checked";
  options.check_decode = true;
  ErrorInfo error = error_of([&] { convert(options); });
  CHECK(error.place == "sample \"largejpg\" field \"jpg\"");
  options.on_error = OnError::kSkip;
  options.force = true;
  const ConvertReport report = convert(options);
  CHECK(report.samples == 5);
  REQUIRE(report.skipped.size() == 1);
  CHECK(report.skipped[0].key == "largejpg");
  CHECK(verify((folder / "checked").string(), {.decode = true}).ok());
}

TEST_CASE("A dry run measures what encoded images will take", "[images]") {
  TemporaryFolder folder;
  make_images(folder / "raw");
  auto options = options_for(folder / "raw", folder / "out", "tar");
  options.image_output = ImageOutput::kJpeg;
  options.image_shorter = 16;
  options.dry_run = true;
  const auto forecast = static_cast<double>(convert(options).bytes);
  options.dry_run = false;
  std::uint64_t bytes = 0;
  convert(options);
  for (const auto& [key, image] : images_of(folder / "out")) bytes += image.bytes.size();
  CHECK(forecast > static_cast<double>(bytes));
  CHECK(forecast < static_cast<double>(bytes) + 6 * 6 * 1024);
}
