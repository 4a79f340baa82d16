// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

/// Random numbers that are the same with every standard library (splitmix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  int below(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }
  float real(float low, float high);

 private:
  std::uint64_t state_;
};

struct Image {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgb;
};

struct Textures;

/// Paints images that look to a codec and to a network like photographs. paint() may be called
/// from several threads.
class PhotoPainter {
 public:
  explicit PhotoPainter(std::uint64_t seed);
  ~PhotoPainter();
  PhotoPainter(const PhotoPainter&) = delete;
  PhotoPainter& operator=(const PhotoPainter&) = delete;

  /// Paints an image of class `label` of `classes`; all else about it comes from `random`.
  Image paint(Random& random, int label, int classes) const;

 private:
  std::unique_ptr<const Textures> textures_;
};
