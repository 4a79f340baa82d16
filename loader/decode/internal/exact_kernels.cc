// SPDX-License-Identifier: Apache-2.0
#include "loader/decode/internal/exact_kernels.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace shardmill::internal {

namespace {

constexpr std::int32_t kHalf = 1 << (kExactBits - 1);
constexpr std::size_t kBlock = 8;

// The weights may sum to a little more than one.
std::uint8_t byte_of(std::int32_t sum) noexcept {
  return static_cast<std::uint8_t>(std::clamp(sum >> kExactBits, 0, 255));
}

template <std::size_t kChannels>
void columns_portable(const std::uint8_t* row, const ExactTaps& taps, std::size_t outputs,
                      std::uint8_t* out) {
  for (std::size_t x = 0; x < outputs; ++x, out += kChannels) {
    const std::uint8_t* from = row + taps.first[x] * kChannels;
    const std::int32_t* const weights = taps.weights + x * taps.per_output;
    std::int32_t sums[kChannels];
    std::fill_n(sums, kChannels, kHalf);
    for (std::size_t k = 0; k < taps.count[x]; ++k, from += kChannels) {
      for (std::size_t c = 0; c < kChannels; ++c) sums[c] += from[c] * weights[k];
    }
    for (std::size_t c = 0; c < kChannels; ++c) out[c] = byte_of(sums[c]);
  }
}

void rows_portable(const std::uint8_t* first, std::size_t stride, const std::int32_t* weights,
                   std::size_t count, std::size_t width, std::uint8_t* out) {
  for (std::size_t i = 0; i < width; i += kBlock) {
    const std::size_t some = std::min(kBlock, width - i);
    std::int32_t sums[kBlock];
    std::fill_n(sums, kBlock, kHalf);
    for (std::size_t k = 0; k < count; ++k) {
      const std::uint8_t* const from = first + k * stride + i;
      for (std::size_t j = 0; j < some; ++j) sums[j] += from[j] * weights[k];
    }
    for (std::size_t j = 0; j < some; ++j) out[i + j] = byte_of(sums[j]);
  }
}

constexpr ExactKernels kPortable = {&columns_portable<3>, &columns_portable<4>, &rows_portable};

#if defined(__x86_64__)
#define SHARDMILL_AVX2 __attribute__((target("avx2")))

// A pixel a lane; of three channels the fourth lane is the next pixel's, and is written over.
template <std::size_t kChannels>
SHARDMILL_AVX2 void columns_avx2(const std::uint8_t* row, const ExactTaps& taps,
                                 std::size_t outputs, std::uint8_t* out) {
  for (std::size_t x = 0; x < outputs; ++x, out += kChannels) {
    const std::uint8_t* from = row + taps.first[x] * kChannels;
    const std::int32_t* const weights = taps.weights + x * taps.per_output;
    __m128i sums = _mm_set1_epi32(kHalf);
    for (std::size_t k = 0; k < taps.count[x]; ++k, from += kChannels) {
      std::int32_t pixel = 0;
      std::memcpy(&pixel, from, sizeof(pixel));
      const __m128i values = _mm_cvtepu8_epi32(_mm_cvtsi32_si128(pixel));
      sums = _mm_add_epi32(sums, _mm_mullo_epi32(values, _mm_set1_epi32(weights[k])));
    }
    const __m128i whole = _mm_srai_epi32(sums, kExactBits);
    const __m128i words = _mm_packs_epi32(whole, whole);
    const std::int32_t bytes = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    std::memcpy(out, &bytes, sizeof(bytes));
  }
}

SHARDMILL_AVX2 void rows_avx2(const std::uint8_t* first, std::size_t stride,
                              const std::int32_t* weights, std::size_t count, std::size_t width,
                              std::uint8_t* out) {
  for (std::size_t i = 0; i < width; i += kBlock) {
    __m256i sums = _mm256_set1_epi32(kHalf);
    for (std::size_t k = 0; k < count; ++k) {
      const auto* const from = reinterpret_cast<const __m128i*>(first + k * stride + i);
      const __m256i values = _mm256_cvtepu8_epi32(_mm_loadl_epi64(from));
      sums = _mm256_add_epi32(sums, _mm256_mullo_epi32(values, _mm256_set1_epi32(weights[k])));
    }
    const __m256i whole = _mm256_srai_epi32(sums, kExactBits);
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out + i), _mm_packus_epi16(words, words));
  }
}

#undef SHARDMILL_AVX2

constexpr ExactKernels kAvx2 = {&columns_avx2<3>, &columns_avx2<4>, &rows_avx2};
#endif

}  // namespace

const ExactKernels& portable_exact_kernels() noexcept { return kPortable; }

const ExactKernels& best_exact_kernels() noexcept {
#if defined(__x86_64__)
  static const bool fast = __builtin_cpu_supports("avx2") != 0;
  if (fast) return kAvx2;
#endif
  return kPortable;
}

}  // namespace shardmill::internal
