// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>

#include <cstdint>
#include <vector>

namespace shardmill::lmdb {

/// A record of a Caffe data set: an image, encoded or as numbers channel by channel (BGR), or
/// floats of the same shape, and a label.
struct Datum {
  std::uint64_t channels = 0;
  std::uint64_t height = 0;
  std::uint64_t width = 0;
  Bytes data;  ///< Points into the parsed bytes.
  std::vector<float> floats;
  bool encoded = false;
  bool has_label = false;
  std::int32_t label = 0;
};

/// Parses a value as Caffe's `Datum`, which must hold what its shape says. Returns null, or what
/// is wrong with it. `out` keeps its buffers.
const char* parse_datum(Bytes bytes, Datum& out);

/// Writes the numbers of a raw image with 1, 3 or 4 channels to `out` row by row, RGB.
/// REQUIRES: `out` has datum.data.size() bytes.
void interleave(const Datum& datum, std::byte* out) noexcept;

}  // namespace shardmill::lmdb
