// SPDX-License-Identifier: Apache-2.0
#include "loader/decode/internal/blend.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace shardmill::internal {

namespace {
constexpr std::size_t kBlock = 16;
constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);
}  // namespace

void blend_rows_portable(const std::uint8_t* const* rows, const std::int16_t* weights,
                         std::size_t count, std::uint8_t* out, std::size_t width) {
  for (std::size_t x = 0; x < width; x += kBlock) {
    std::int32_t sums[kBlock];
    std::fill_n(sums, kBlock, kHalf);
    for (std::size_t k = 0; k < count; ++k) {
      const std::uint8_t* row = rows[k] + x;
      const std::int32_t weight = weights[k];
      for (std::size_t i = 0; i < kBlock; ++i) sums[i] += weight * row[i];
    }
    for (std::size_t i = 0; i < kBlock; ++i) {
      out[x + i] = static_cast<std::uint8_t>(sums[i] >> kWeightBits);
    }
  }
}

#if defined(__x86_64__)
namespace {

#define SHARDMILL_AVX2 __attribute__((target("avx2")))

struct Sums {
  __m256i low, high;
};

SHARDMILL_AVX2 inline __m256i pair_weights(const std::int16_t* weights) {
  std::int32_t pair = 0;
  std::memcpy(&pair, weights, sizeof(pair));
  return _mm256_set1_epi32(pair);
}

// Two rows at a time: their bytes interleaved and widened are the pairs that madd multiplies and
// adds.
SHARDMILL_AVX2 inline void add_pair(Sums& sums, const std::uint8_t* a, const std::uint8_t* b,
                                    __m256i weights) {
  const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a));
  const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b));
  const __m256i low = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(first, second));
  const __m256i high = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(first, second));
  sums.low = _mm256_add_epi32(sums.low, _mm256_madd_epi16(low, weights));
  sums.high = _mm256_add_epi32(sums.high, _mm256_madd_epi16(high, weights));
}

SHARDMILL_AVX2 inline void store(const Sums& sums, std::uint8_t* out) {
  const __m256i low = _mm256_srai_epi32(sums.low, kWeightBits);
  const __m256i high = _mm256_srai_epi32(sums.high, kWeightBits);
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
  const __m128i bytes =
      _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), bytes);
}

// Pointers and weights of so few rows stay in registers.
template <std::size_t kPairs>
SHARDMILL_AVX2 void blend_pairs_avx2(const std::uint8_t* const* rows, const std::int16_t* weights,
                                     std::uint8_t* out, std::size_t width) {
  const __m256i half = _mm256_set1_epi32(kHalf);
  const std::uint8_t* from[kPairs * 2];
  __m256i factors[kPairs];
  for (std::size_t k = 0; k < kPairs * 2; ++k) from[k] = rows[k];
  for (std::size_t k = 0; k < kPairs; ++k) factors[k] = pair_weights(weights + 2 * k);
  for (std::size_t x = 0; x < width; x += kBlock) {
    Sums sums{half, half};
    for (std::size_t k = 0; k < kPairs; ++k) {
      add_pair(sums, from[2 * k] + x, from[2 * k + 1] + x, factors[k]);
    }
    store(sums, out + x);
  }
}

SHARDMILL_AVX2 void blend_rows_avx2(const std::uint8_t* const* rows, const std::int16_t* weights,
                                    std::size_t count, std::uint8_t* out, std::size_t width) {
  if (count == 2) return blend_pairs_avx2<1>(rows, weights, out, width);
  if (count == 4) return blend_pairs_avx2<2>(rows, weights, out, width);
  const __m256i half = _mm256_set1_epi32(kHalf);
  for (std::size_t x = 0; x < width; x += kBlock) {
    Sums sums{half, half};
    for (std::size_t k = 0; k < count; k += 2) {
      add_pair(sums, rows[k] + x, rows[k + 1] + x, pair_weights(weights + k));
    }
    store(sums, out + x);
  }
}

#undef SHARDMILL_AVX2

}  // namespace
#endif

BlendRows best_blend_rows() noexcept {
#if defined(__x86_64__)
  static const BlendRows best =
      __builtin_cpu_supports("avx2") ? &blend_rows_avx2 : &blend_rows_portable;
  return best;
#else
  return &blend_rows_portable;
#endif
}

}  // namespace shardmill::internal
