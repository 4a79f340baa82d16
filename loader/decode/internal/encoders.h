// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/decode/encoder.h>

#include <cstddef>
#include <vector>

namespace shardmill::internal {

// One library each. REQUIRES: pixels that encode_image() checked; `out` is empty.
void encode_jpeg(const PixelView& pixels, const EncodeOptions& options,
                 std::vector<std::byte>& out);
void encode_webp(const PixelView& pixels, const EncodeOptions& options,
                 std::vector<std::byte>& out);
void encode_png(const PixelView& pixels, std::vector<std::byte>& out);

}  // namespace shardmill::internal
