// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/array.h>
#include <shardmill/formats/digest.h>
#include <shardmill/loader/decode/image.h>
#include <shardmill/loader/decode/payload.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "loader/decode/internal/exif.h"

namespace shardmill {

namespace {

using Json = nlohmann::ordered_json;

Json describe_array(Bytes bytes, bool hash) {
  const NpyView npy = parse_npy(bytes, {}, {});
  Json json;
  json["format"] = "npy";
  json["dtype"] = dtype_name(npy.type.dtype);
  json["shape"] = npy.type.shape;
  if (!hash) return json;
  if (npy.canonical()) {
    json["sha256"] = sha256_hex(npy.data);
    return json;
  }
  std::vector<std::byte> elements(npy.data.size());
  canonical_elements(npy, elements.data());
  json["sha256"] = sha256_hex(elements);
  return json;
}

Json describe_image(Bytes bytes, bool hash) {
  const ImageInfo info = probe_image(bytes);
  ImageDecoder decoder;
  const internal::Size stored = internal::oriented({info.width, info.height}, info.orientation);
  Json json;
  json["format"] = image_format_name(info.format);
  json["width"] = info.width;
  json["height"] = info.height;
  json["channels"] = info.channels;
  json["bit_depth"] = info.bit_depth;
  json["orientation"] = info.orientation;
  json["stored_width"] = stored.width;
  json["stored_height"] = stored.height;
  if (hash) json["rgb_sha256"] = sha256_hex(std::as_bytes(decoder.decode_full(bytes).rgb));
  return json;
}

}  // namespace

std::string describe_payload(Bytes bytes, bool hash) {
  const bool array = as_text(bytes).starts_with("\x93NUMPY");
  return (array ? describe_array(bytes, hash) : describe_image(bytes, hash)).dump();
}

}  // namespace shardmill
