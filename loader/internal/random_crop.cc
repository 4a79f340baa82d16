// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/random_crop.h"

#include <algorithm>
#include <cmath>

namespace shardmill::internal {

namespace {

constexpr int kTries = 10;  // as torchvision's RandomResizedCrop

// The largest centred part whose proportions are allowed.
ImagePart centred(const RandomCrop& crop, double width, double height) {
  const double ratio = std::clamp(width / height, crop.min_ratio, crop.max_ratio);
  const double w = std::min(width, height * ratio);
  const double h = std::min(height, width / ratio);
  return {(width - w) / 2, (height - h) / 2, (width + w) / 2, (height + h) / 2};
}

}  // namespace

ImagePart random_part(const RandomCrop& crop, std::uint32_t width, std::uint32_t height,
                      Random& random) {
  const bool flip = random.uniform() < crop.flip;
  const double area = double{1} * width * height;
  for (int i = 0; i < kTries; ++i) {
    const double part = area * random.uniform(crop.min_area, crop.max_area);
    const double ratio =
        std::exp(random.uniform(std::log(crop.min_ratio), std::log(crop.max_ratio)));
    const auto w = static_cast<std::uint64_t>(std::lround(std::sqrt(part * ratio)));
    const auto h = static_cast<std::uint64_t>(std::lround(std::sqrt(part / ratio)));
    if (w == 0 || h == 0 || w > width || h > height) continue;
    const auto left = static_cast<double>(random.below(width - w + 1));
    const auto top = static_cast<double>(random.below(height - h + 1));
    return {left, top, left + static_cast<double>(w), top + static_cast<double>(h), flip};
  }
  ImagePart part = centred(crop, width, height);
  part.flip = flip;
  return part;
}

}  // namespace shardmill::internal
