// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tools/bench/subject.h"

namespace shardmill::tools::bench {

/// Copies memory with one thread per usable CPU for `seconds`; returns how many GB/s (10^9 bytes)
/// all of them copied together. The blocks are larger than a core's caches.
double measure_memcpy(int cpus, double seconds);

/// A bare loop on one core: decodes images of a dataset at full size, one after the other, held in
/// memory, as libjpeg-turbo, libwebp and libpng do it, and does nothing else.
class DecodeLoop {
 public:
  /// Takes some hundred images, spread over the dataset.
  explicit DecodeLoop(const Subject& subject);

  /// Returns images decoded per second within about `seconds`.
  double measure(double seconds, const Observer& observer);

 private:
  std::vector<std::vector<std::byte>> images_;
  std::size_t next_ = 0;
};

}  // namespace shardmill::tools::bench
