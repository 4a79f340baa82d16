// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/decode/image.h>
#include <shardmill/loader/outputs.h>
#include <shardmill/loader/random.h>

#include <cstdint>

namespace shardmill::internal {

/// Chooses a part of an image of that size. What is drawn from `random` depends on `crop` and the
/// size alone.
ImagePart random_part(const RandomCrop& crop, std::uint32_t width, std::uint32_t height,
                      Random& random);

}  // namespace shardmill::internal
