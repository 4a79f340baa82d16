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

// Two rows at a time: their bytes interleaved and widened are the pairs that madd multiplies and
// adds.
__attribute__((target("avx2"))) void blend_rows_avx2(const std::uint8_t* const* rows,
                                                     const std::int16_t* weights, std::size_t count,
                                                     std::uint8_t* out, std::size_t width) {
  const __m256i half = _mm256_set1_epi32(kHalf);
  for (std::size_t x = 0; x < width; x += kBlock) {
    __m256i low = half;
    __m256i high = half;
    for (std::size_t k = 0; k < count; k += 2) {
      std::int32_t pair = 0;
      std::memcpy(&pair, weights + k, sizeof(pair));
      const __m256i weight = _mm256_set1_epi32(pair);
      const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[k] + x));
      const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[k + 1] + x));
      const __m256i first = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b));
      const __m256i second = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b));
      low = _mm256_add_epi32(low, _mm256_madd_epi16(first, weight));
      high = _mm256_add_epi32(high, _mm256_madd_epi16(second, weight));
    }
    low = _mm256_srai_epi32(low, kWeightBits);
    high = _mm256_srai_epi32(high, kWeightBits);
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
    const __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + x), bytes);
  }
}

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
