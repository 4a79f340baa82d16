// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/array.h>
#include <shardmill/formats/digest.h>
#include <shardmill/loader/decode/payload.h>

#include <nlohmann/json.hpp>

#include "tests/loader/decode/make_images.h"
#include "tests/support/catch.h"

using namespace shardmill;
using namespace shardmill::test;
using Json = nlohmann::json;

TEST_CASE("describe_payload describes an image", "[decode]") {
  const std::string image = make_jpeg(30, 20, 1, {.orientation = 6});
  const Json json = Json::parse(describe_payload(as_bytes(image), false));
  CHECK(json["format"] == "jpeg");
  CHECK(json["width"] == 20);
  CHECK(json["height"] == 30);
  CHECK(json["stored_width"] == 30);
  CHECK(json["stored_height"] == 20);
  CHECK(json["channels"] == 3);
  CHECK(json["bit_depth"] == 8);
  CHECK(json["orientation"] == 6);
  CHECK_FALSE(json.contains("rgb_sha256"));
  const std::string png = make_png(30, 20, 1);
  const std::vector<std::uint8_t> rgb = texture(30, 20, 1);
  const Json hashed = Json::parse(describe_payload(as_bytes(png), true));
  CHECK(hashed["rgb_sha256"] == sha256_hex(std::as_bytes(std::span(rgb))));
}

TEST_CASE("describe_payload describes an array", "[decode]") {
  const std::uint16_t values[6] = {1, 2, 3, 4, 5, 65535};
  const std::string elements(reinterpret_cast<const char*>(values), sizeof(values));
  const std::string npy = npy_header({DType::kUInt16, {2, 3}}) + elements;
  const Json json = Json::parse(describe_payload(as_bytes(npy), true));
  CHECK(json["format"] == "npy");
  CHECK(json["dtype"] == "uint16");
  CHECK(json["shape"] == Json::array({2, 3}));
  CHECK(json["sha256"] == sha256_hex(as_bytes(elements)));
  CHECK_FALSE(Json::parse(describe_payload(as_bytes(npy), false)).contains("sha256"));
  CHECK(error_of([&] { describe_payload(as_bytes(npy).first(npy.size() - 1), true); }).code ==
        ErrorCode::kDataLoss);
}
