// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>

#include <string>

namespace shardmill {

/// Describes one payload, an image or an .npy array, as one line of JSON: `format`, `width`,
/// `height`, `channels`, `bit_depth`, `orientation` and `stored_width`, `stored_height` (before
/// orientation) of an image; `format`, `dtype`, `shape` of an array.
///
/// With `hash` also `rgb_sha256` (the full-size 8-bit RGB rows as ImageDecoder::decode_full gives
/// them) or `sha256` (the elements in C order, little-endian); this decodes everything. Throws
/// Error with empty path and place, which callers add.
std::string describe_payload(Bytes bytes, bool hash);

}  // namespace shardmill
