// SPDX-License-Identifier: Apache-2.0
// Images that become arrays of one size.
#include <shardmill/converters/convert.h>
#include <shardmill/loader/decode/image.h>

#include "tests/converters/data.h"
#include "tests/support/catch.h"

using namespace shardmill;
using namespace shardmill::test;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kFormats = {"tar", "lmdb", "hdf5", "folder"};

// Two classes with JPEG, PNG and WebP images of different sizes and a mask beside each.
void make_images(const fs::path& folder) {
  const CommandResult made = run_command(
      "/usr/bin/python3 - '" + folder.string() +
      "' <<'E'\nimport os, sys, numpy as np\nfrom PIL import Image\n"
      "r = np.random.default_rng(1)\n"
      "for i, (c, e) in enumerate([(c, e) for c in 'ab' for e in ('jpg', 'png', 'webp')]):\n"
      "  os.makedirs(f'{sys.argv[1]}/{c}', exist_ok=True)\n"
      "  p = np.kron(r.integers(0, 255, (5 + i, 9, 3)), np.ones((4, 4, 1))).astype('u1')\n"
      "  Image.fromarray(p).save(f'{sys.argv[1]}/{c}/{e}.{e}')\n"
      "  Image.fromarray(p[..., 0]).save(f'{sys.argv[1]}/{c}/{e}.seg.png')\nE");
  REQUIRE(made.err == "");
}

ConvertOptions raw_options(const fs::path& from, const fs::path& to, const std::string& format) {
  ConvertOptions options = options_for(from, to, format);
  options.image_output = ImageOutput::kRaw;
  options.image_size = ImageSize{12, 10};
  return options;
}

}  // namespace

TEST_CASE("Raw images are what the decoder gives, in every format", "[raw]") {
  TemporaryFolder folder;
  make_images(folder / "raw");
  const ArrayType type{DType::kUInt8, {10, 12, 3}};
  std::string digest;
  for (const std::string& format : kFormats) {
    INFO(format);
    auto options = raw_options(folder / "raw", folder / format, format);
    options.shard_samples = 2;
    options.jobs = 2;
    const ConvertReport report = convert(options);
    CHECK(report.samples == 6);
    if (digest.empty()) digest = report.content_digest;
    CHECK(report.content_digest == digest);
    CHECK(verify((folder / format).string(), {}).ok());

    DatasetReader source(Dataset::open((folder / "raw").string()));
    DatasetReader result(Dataset::open((folder / format).string()));
    REQUIRE(result.size() == 6);
    ImageDecoder decoder;
    std::vector<std::uint8_t> pixels(type.bytes());
    for (std::uint64_t n = 0; n < 6; ++n) {
      SampleView from;
      SampleView to;
      source.read(n, from);
      result.read(n, to);
      CHECK(to.key == from.key);
      CHECK(as_text(to.find("cls")->bytes) == (n < 3 ? "0" : "1"));
      CHECK(to.find("seg.png") != nullptr);  // only the sample's own image is decoded
      REQUIRE(to.fields.size() == 3);
      const std::string key(from.key);
      decoder.decode_cover(from.find(key.substr(key.find('/') + 1))->bytes, 12, 10, pixels.data());
      const FieldView* field = to.find("npy");
      REQUIRE(field != nullptr);
      Bytes elements = field->bytes;
      if (field->array == nullptr) {
        const NpyView npy = parse_npy(field->bytes, {}, {});
        CHECK(npy.type == type);
        elements = npy.data;
      } else {
        CHECK(*field->array == type);
      }
      CHECK(as_text(elements) == as_text(std::as_bytes(std::span(pixels))));
    }
  }
  // From arrays, every pair again: nothing is lost where numbers become .npy files and back.
  for (const std::string& from : kFormats) {
    for (const std::string& to : kFormats) {
      INFO(from << " to " << to);
      convert(options_for(folder / from, folder / "again", to));
      CHECK(verify_equal((folder / from).string(), (folder / "again").string(), {}).ok());
      CHECK(load_manifest(folder / "again/manifest.json").fields ==
            load_manifest(folder / from / "manifest.json").fields);
      fs::remove_all(folder / "again");
    }
  }
}

TEST_CASE("Raw refuses damaged images and samples without exactly one", "[raw]") {
  TemporaryFolder folder;
  make_images(folder / "raw");
  const auto failure = [&] {
    const ErrorInfo error =
        error_of([&] { convert(raw_options(folder / "raw", folder / "out", "hdf5")); });
    CHECK((!fs::exists(folder / "out") || only_resumable(folder / "out")));
    fs::remove_all(folder / "out");
    CHECK(error.path == (folder / "raw").string());
    CHECK_FALSE(error.remedy.empty());
    return error;
  };
  const std::string image = read_text(folder / "raw/b/png.png");
  write_text(folder / "raw/b/png.png", image.substr(0, image.size() / 2));
  ErrorInfo error = failure();
  CHECK(error.code == ErrorCode::kDataLoss);
  CHECK(error.place == "sample \"b/png\" field \"png\"");

  write_text(folder / "raw/b/png.png", image);
  write_text(folder / "raw/b/png.npy", npy_header({DType::kUInt8, {1}}) + "x");
  error = failure();
  CHECK(error.code == ErrorCode::kUnsupported);
  CHECK(error.place == "field \"npy\"");
  fs::remove(folder / "raw/b/png.npy");

  convert(options_for(folder / "raw", folder / "kept", "tar"));
  auto options = raw_options(folder / "kept", folder / "arrays", "tar");
  convert(options);
  options = raw_options(folder / "arrays", folder / "out", "tar");  // arrays are no images
  CHECK(error_of([&] { convert(options); }).code == ErrorCode::kUnsupported);
  CHECK_FALSE(fs::exists(folder / "out/manifest.json"));
}
