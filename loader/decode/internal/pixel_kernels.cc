// SPDX-License-Identifier: Apache-2.0
// Compiled without contraction to fused operations, which round differently.
#include "loader/decode/internal/pixel_kernels.h"

#include <bit>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace shardmill::internal {

std::uint16_t half_of(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000;
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) {  // not a number
    return static_cast<std::uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  }
  if (magnitude >= 0x47800000) return static_cast<std::uint16_t>(sign | 0x7c00);  // too large
  if (magnitude < 0x38800000) {  // below the normal numbers: the unit is 2^-24
    const float units = std::bit_cast<float>(magnitude) * 0x1p24F;
    auto whole = static_cast<std::uint32_t>(units);
    const float rest = units - static_cast<float>(whole);
    if (rest > 0.5F || (rest == 0.5F && (whole & 1) != 0)) ++whole;
    return static_cast<std::uint16_t>(sign | whole);
  }
  // Rounding may carry into the exponent, up to infinity, which is what it should do.
  const std::uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000;
  return static_cast<std::uint16_t>(sign | rounded >> 13);
}

namespace {

void store(float value, float* out) noexcept { *out = value; }
void store(float value, std::uint16_t* out) noexcept { *out = half_of(value); }

template <class Number>
void normalise_from(std::size_t begin, const std::uint8_t* in, std::size_t count,
                    const Normalisation& by, Number* out) {
  for (std::size_t i = begin; i < count; ++i) {
    const std::size_t place = i % kPattern;
    store(static_cast<float>(in[i]) * by.scale[place] + by.bias[place], out + i);
  }
}

template <class Number>
void split_from(std::size_t begin, const std::uint8_t* in, std::size_t count, std::size_t channels,
                const Normalisation& by, Number* const* out) {
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t i = begin; i < count; ++i) {
      store(static_cast<float>(in[4 * i + c]) * by.scale[c] + by.bias[c], out[c] + i);
    }
  }
}

template <class Number>
void normalise_portable(const std::uint8_t* in, std::size_t count, const Normalisation& by,
                        Number* out) {
  normalise_from(0, in, count, by, out);
}

template <class Number>
void split_portable(const std::uint8_t* in, std::size_t count, std::size_t channels,
                    const Normalisation& by, Number* const* out) {
  split_from(0, in, count, channels, by, out);
}

constexpr PixelKernels kPortable = {&normalise_portable<float>, &normalise_portable<std::uint16_t>,
                                    &split_portable<float>, &split_portable<std::uint16_t>};

#if defined(__x86_64__)
#define SHARDMILL_AVX2 __attribute__((target("avx2,f16c")))

SHARDMILL_AVX2 inline void store_eight(__m256 values, float* out) { _mm256_storeu_ps(out, values); }
SHARDMILL_AVX2 inline void store_eight(__m256 values, std::uint16_t* out) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out),
                   _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
}

SHARDMILL_AVX2 inline __m256 scaled(__m256i values, __m256 scale, __m256 bias) {
  return _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(values), scale), bias);
}

template <class Number>
SHARDMILL_AVX2 void normalise_avx2(const std::uint8_t* in, std::size_t count,
                                   const Normalisation& by, Number* out) {
  __m256 scales[3], biases[3];
  for (std::size_t k = 0; k < 3; ++k) {
    scales[k] = _mm256_loadu_ps(&by.scale[8 * k]);
    biases[k] = _mm256_loadu_ps(&by.bias[8 * k]);
  }
  const std::size_t whole = count / kPattern * kPattern;
  for (std::size_t i = 0; i < whole; i += kPattern) {
    for (std::size_t k = 0; k < 3; ++k) {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(in + i + 8 * k));
      store_eight(scaled(_mm256_cvtepu8_epi32(bytes), scales[k], biases[k]), out + i + 8 * k);
    }
  }
  normalise_from(whole, in, count, by, out);
}

template <class Number>
SHARDMILL_AVX2 void split_avx2(const std::uint8_t* in, std::size_t count, std::size_t channels,
                               const Normalisation& by, Number* const* out) {
  __m256 scales[4], biases[4];
  for (std::size_t c = 0; c < 4; ++c) {
    scales[c] = _mm256_set1_ps(by.scale[c]);
    biases[c] = _mm256_set1_ps(by.bias[c]);
  }
  const __m256i byte = _mm256_set1_epi32(0xff);
  const std::size_t whole = count / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8) {
    const __m256i pixels = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + 4 * i));
    store_eight(scaled(_mm256_and_si256(pixels, byte), scales[0], biases[0]), out[0] + i);
    store_eight(scaled(_mm256_and_si256(_mm256_srli_epi32(pixels, 8), byte), scales[1], biases[1]),
                out[1] + i);
    store_eight(scaled(_mm256_and_si256(_mm256_srli_epi32(pixels, 16), byte), scales[2], biases[2]),
                out[2] + i);
    if (channels == 4) {
      store_eight(scaled(_mm256_srli_epi32(pixels, 24), scales[3], biases[3]), out[3] + i);
    }
  }
  split_from(whole, in, count, channels, by, out);
}

#undef SHARDMILL_AVX2

constexpr PixelKernels kAvx2 = {&normalise_avx2<float>, &normalise_avx2<std::uint16_t>,
                                &split_avx2<float>, &split_avx2<std::uint16_t>};
#endif

}  // namespace

const PixelKernels& portable_pixel_kernels() noexcept { return kPortable; }

const PixelKernels& best_pixel_kernels() noexcept {
#if defined(__x86_64__)
  static const bool fast =
      __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("f16c") != 0;
  if (fast) return kAvx2;
#endif
  return kPortable;
}

}  // namespace shardmill::internal
