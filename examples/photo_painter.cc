// SPDX-License-Identifier: Apache-2.0
// A class has a hue and a direction and spacing of soft stripes; both are half hidden under
// texture, shapes and light, so a network has something to learn.
#include "photo_painter.h"

#include <algorithm>
#include <array>
#include <cmath>

std::uint64_t Random::next() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

float Random::real(float low, float high) {
  return low + (high - low) * static_cast<float>(next() >> 40) * 0x1p-24f;
}

namespace {

constexpr float kPi = 3.14159265f;

using Colour = std::array<float, 3>;

// Value noise of several octaves on a torus, mean 0, about -1 to 1. Made once; images use windows.
class Texture {
 public:
  static constexpr int kSide = 1024;

  // `roughness` is the height of each octave relative to the one before (twice as wide).
  Texture(Random& random, int first_octave, int last_octave, float roughness)
      : values_(std::size_t{kSide} * kSide) {
    float height = 1;
    float total = 0;
    for (int octave = first_octave; octave <= last_octave; ++octave, height *= roughness) {
      add_octave(random, octave, height);
      total += height * height;
    }
    for (float& value : values_) value *= 1.6f / std::sqrt(total);
  }
  float at(int x, int y) const {
    return values_[static_cast<std::size_t>((y & (kSide - 1)) * kSide + (x & (kSide - 1)))];
  }

 private:
  void add_octave(Random& random, int octave, float height) {
    const int cells = 1 << octave;
    const int step = kSide / cells;
    std::vector<float> lattice(std::size_t(cells) * std::size_t(cells));
    for (float& value : lattice) value = random.real(-height, height);
    for (int y = 0; y < kSide; ++y) {
      const float v = static_cast<float>(y % step) / static_cast<float>(step);
      const float* top = &lattice[std::size_t(y / step) * std::size_t(cells)];
      const float* bottom = &lattice[std::size_t((y / step + 1) % cells) * std::size_t(cells)];
      for (int x = 0; x < kSide; ++x) {
        const float u = static_cast<float>(x % step) / static_cast<float>(step);
        const int left = x / step;
        const int right = (left + 1) % cells;
        const float up = top[left] + (top[right] - top[left]) * u;
        const float down = bottom[left] + (bottom[right] - bottom[left]) * u;
        values_[std::size_t(y) * kSide + std::size_t(x)] += up + (down - up) * v;
      }
    }
  }

  std::vector<float> values_;
};

}  // namespace

struct Textures {
  explicit Textures(std::uint64_t seed) : random(seed) {}
  Random random;
  Texture coarse{random, 1, 5, 0.6f};   // light, clouds, bends of the stripes
  Texture medium{random, 3, 9, 0.75f};  // bark, grass, cloth
  Texture fine{random, 6, 10, 1.1f};    // grain
};

namespace {

Colour hue_colour(float hue, float saturation, float value) {
  Colour colour{};
  for (std::size_t i = 0; i < 3; ++i) {
    const float k = std::fmod(5.0f - 2.0f * static_cast<float>(i) + hue * 6.0f, 6.0f);
    const float ramp = std::clamp(std::min(k, 4.0f - k), 0.0f, 1.0f);
    colour[i] = 255 * value * (1 - saturation * ramp);
  }
  return colour;
}

struct Range {
  float low, high;
};

Colour random_colour(Random& random, float hue, Range saturation, Range value) {
  const float s = random.real(saturation.low, saturation.high);
  return hue_colour(hue, s, random.real(value.low, value.high));
}

// An ellipse with its own colour and contrast of texture: edges and flat or busy areas.
struct Shape {
  float x, y, a, b, cosine, sine, contrast;
  Colour colour;
  bool contains(float px, float py) const {
    const float u = ((px - x) * cosine + (py - y) * sine) / a;
    const float v = ((py - y) * cosine - (px - x) * sine) / b;
    return u * u + v * v < 1;
  }
};

// Everything that is drawn at random for one image.
struct Scene {
  Scene(Random& random, int label, int classes) {
    width = 300 + random.below(201);
    height = 300 + random.below(201);
    const float part = static_cast<float>(label) / static_cast<float>(classes);
    const float hue = part + random.real(1.9f, 2.1f);
    far = random_colour(random, hue, {0.25f, 0.6f}, {0.55f, 0.9f});
    near = random_colour(random, hue + random.real(-0.06f, 0.06f), {0.3f, 0.7f}, {0.35f, 0.7f});
    const float angle = kPi * (part + random.real(-0.06f, 0.06f));
    const float spacing = random.real(18, 26) + 10.0f * static_cast<float>(label % 3);
    stripe_x = std::cos(angle) / spacing;
    stripe_y = std::sin(angle) / spacing;
    stripe_contrast = random.real(14, 30);
    texture_contrast = random.real(22, 52);
    grain = random.real(8, 20);
    for (int* offset : {&coarse_x, &coarse_y, &medium_x, &medium_y, &fine_x, &fine_y}) {
      *offset = random.below(Texture::kSide);
    }
    for (int i = 4 + random.below(6); i > 0; --i) add_shape(random);
  }

  void add_shape(Random& random) {
    Shape shape{};
    shape.x = random.real(0, static_cast<float>(width));
    shape.y = random.real(0, static_cast<float>(height));
    shape.a = random.real(12, 80);
    shape.b = random.real(0.3f, 1) * shape.a;
    const float angle = random.real(0, kPi);
    shape.cosine = std::cos(angle);
    shape.sine = std::sin(angle);
    shape.contrast = random.real(0.2f, 1.3f);
    shape.colour = random_colour(random, random.real(2, 3), {0.1f, 0.7f}, {0.2f, 1});
    shapes.push_back(shape);
  }

  int width, height;
  Colour far, near;
  float stripe_x, stripe_y, stripe_contrast, texture_contrast, grain;
  int coarse_x, coarse_y, medium_x, medium_y, fine_x, fine_y;
  std::vector<Shape> shapes;
};

// sin(2 pi x) by table.
float wave(float turns) {
  static const auto table = [] {
    std::array<float, 1024> t{};
    for (std::size_t i = 0; i < t.size(); ++i) {
      t[i] = static_cast<float>(std::sin(6.283185307 * static_cast<double>(i) / 1024));
    }
    return t;
  }();
  return table[static_cast<std::size_t>(static_cast<int>(turns * 1024)) & 1023u];
}

// The shape that is on top at each pixel: 0 none, else its number from 1.
std::vector<std::uint8_t> shape_map(const Scene& scene) {
  std::vector<std::uint8_t> map(std::size_t(scene.width) * std::size_t(scene.height));
  for (std::size_t n = 0; n < scene.shapes.size(); ++n) {
    const Shape& shape = scene.shapes[n];
    const float reach = std::max(shape.a, shape.b);
    const int bottom = std::min(scene.height, static_cast<int>(shape.y + reach) + 1);
    const int right = std::min(scene.width, static_cast<int>(shape.x + reach) + 1);
    for (int y = std::max(0, static_cast<int>(shape.y - reach)); y < bottom; ++y) {
      for (int x = std::max(0, static_cast<int>(shape.x - reach)); x < right; ++x) {
        if (shape.contains(static_cast<float>(x), static_cast<float>(y))) {
          map[std::size_t(y) * std::size_t(scene.width) + std::size_t(x)] =
              static_cast<std::uint8_t>(n + 1);
        }
      }
    }
  }
  return map;
}

// The colour at (x, y), where `top` of shape_map() is seen.
Colour pixel(const Scene& scene, const Textures& textures, int x, int y, std::uint8_t top) {
  const float light = textures.coarse.at(x + scene.coarse_x, y + scene.coarse_y);
  const float rough = textures.medium.at(x + scene.medium_x, y + scene.medium_y);
  const float grain = textures.fine.at(x + scene.fine_x, y + scene.fine_y);
  // Grain differs between the channels, as in a sensor.
  const float tint = 9 * textures.medium.at(x + scene.fine_x, y + scene.fine_y);
  float value = light * 38 + grain * scene.grain;
  Colour base{};
  if (top != 0) {
    const Shape& shape = scene.shapes[top - 1u];
    base = shape.colour;
    value += rough * shape.contrast * scene.texture_contrast;
  } else {
    const float depth = static_cast<float>(y) / static_cast<float>(scene.height);
    for (std::size_t c = 0; c < 3; ++c) {
      base[c] = scene.far[c] + (scene.near[c] - scene.far[c]) * depth;
    }
    const float turns = 64 + static_cast<float>(x) * scene.stripe_x +
                        static_cast<float>(y) * scene.stripe_y + light * 0.5f;
    value += rough * scene.texture_contrast + wave(turns) * scene.stripe_contrast;
  }
  return {base[0] + value + tint, base[1] + value, base[2] + value - tint};
}

Image draw(const Scene& scene, const Textures& textures) {
  Image image{scene.width, scene.height, {}};
  image.rgb.reserve(std::size_t(image.width) * std::size_t(image.height) * 3);
  const std::vector<std::uint8_t> map = shape_map(scene);
  auto top = map.begin();
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      for (const float channel : pixel(scene, textures, x, y, *top++)) {
        image.rgb.push_back(static_cast<std::uint8_t>(std::clamp(channel, 0.0f, 255.0f)));
      }
    }
  }
  return image;
}

}  // namespace

PhotoPainter::PhotoPainter(std::uint64_t seed) : textures_(std::make_unique<Textures>(seed)) {}

PhotoPainter::~PhotoPainter() = default;

Image PhotoPainter::paint(Random& random, int label, int classes) const {
  return draw(Scene(random, label, classes), *textures_);
}
