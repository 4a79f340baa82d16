// SPDX-License-Identifier: Apache-2.0
// The transform is Loeffler's: per pass 14 multiplications, all by less than one, so that 16 bits
// hold every sum of an undamaged image four times over.
#include "loader/decode/internal/inverse_dct.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace shardmill::internal {

const std::uint8_t kBlockOrder[64] = {
    0,  8,  1,  2,  9,  16, 24, 17, 10, 3,  4,  11, 18, 25, 32, 40, 33, 26, 19, 12, 5,  6,
    13, 20, 27, 34, 41, 48, 56, 49, 42, 35, 28, 21, 14, 7,  15, 22, 29, 36, 43, 50, 57, 58,
    51, 44, 37, 30, 23, 31, 38, 45, 52, 59, 60, 53, 46, 39, 47, 54, 61, 62, 55, 63};

namespace {

// A pass over each direction multiplies by 8 in all; samples are centred at 128.
constexpr int kShift = kDctFraction + 3;
constexpr std::int32_t kBias = (128 << kShift) + (1 << (kShift - 1));

// Fractions of 2^15: as pmulhrsw takes them.
constexpr std::int16_t fraction(double value) {
  return static_cast<std::int16_t>(value * 32768 + 0.5);
}
constexpr std::int16_t kRoot2 = fraction(0.414213562);  // sqrt(2) - 1
constexpr std::int16_t kCos2 = fraction(0.306562965);   // sqrt(2) cos(2 pi / 16) - 1
constexpr std::int16_t kSin2 = fraction(0.541196100);   // sqrt(2) sin(2 pi / 16)
constexpr std::int16_t kCos1 = fraction(0.980785280);   // cos(pi / 16)
constexpr std::int16_t kSin1 = fraction(0.195090322);   // sin(pi / 16)
constexpr std::int16_t kCos3 = fraction(0.831469612);   // cos(3 pi / 16)
constexpr std::int16_t kSin3 = fraction(0.555570233);   // sin(3 pi / 16)

// Of four points, which average two each: frequency j times cos(j pi / 16).
constexpr std::int16_t kHalf2 = fraction(0.923879533);     // frequency 2
constexpr std::int16_t kHalf1Cos = fraction(0.281457238);  // 1: sqrt(2) cos(pi / 8) ..., less 1
constexpr std::int16_t kHalf1Sin = fraction(0.530797165);  // 1: sqrt(2) sin(pi / 8) ...
constexpr std::int16_t kHalf3Sin = fraction(0.449988111);  // 3: sqrt(2) sin(pi / 8) ...
constexpr std::int16_t kHalf3Cos = fraction(0.086367402);  // 3: sqrt(2) cos(pi / 8) ..., less 1

// Of two points, which average four each: sqrt(2) times the mean of cos((2n + 1) pi / 16).
constexpr std::int32_t kQuarter1 = fraction(0.906127446);

// Sixteen bits that saturate, one at a time: what the vector instructions do.
struct One {
  std::int16_t v;
  static One saturated(std::int32_t value) {
    return {static_cast<std::int16_t>(std::clamp(value, -32768, 32767))};
  }
};
inline One add(One a, One b) { return One::saturated(a.v + b.v); }
inline One subtract(One a, One b) { return One::saturated(a.v - b.v); }
inline One times(One a, std::int16_t factor) {
  return {static_cast<std::int16_t>((a.v * factor + (1 << 14)) >> 15)};
}

#if defined(__x86_64__)
#define SHARDMILL_AVX2 __attribute__((target("avx2")))
struct Sixteen {
  __m256i v;
};
SHARDMILL_AVX2 inline Sixteen add(Sixteen a, Sixteen b) { return {_mm256_adds_epi16(a.v, b.v)}; }
SHARDMILL_AVX2 inline Sixteen subtract(Sixteen a, Sixteen b) {
  return {_mm256_subs_epi16(a.v, b.v)};
}
SHARDMILL_AVX2 inline Sixteen times(Sixteen a, std::int16_t factor) {
  return {_mm256_mulhrs_epi16(a.v, _mm256_set1_epi16(factor))};
}
struct Eight {
  __m128i v;
};
SHARDMILL_AVX2 inline Eight add(Eight a, Eight b) { return {_mm_adds_epi16(a.v, b.v)}; }
SHARDMILL_AVX2 inline Eight subtract(Eight a, Eight b) { return {_mm_subs_epi16(a.v, b.v)}; }
SHARDMILL_AVX2 inline Eight times(Eight a, std::int16_t factor) {
  return {_mm_mulhrs_epi16(a.v, _mm_set1_epi16(factor))};
}
#elif defined(__aarch64__)
struct Eight {
  int16x8_t v;
};
inline Eight add(Eight a, Eight b) { return {vqaddq_s16(a.v, b.v)}; }
inline Eight subtract(Eight a, Eight b) { return {vqsubq_s16(a.v, b.v)}; }
inline Eight times(Eight a, std::int16_t factor) { return {vqrdmulhq_n_s16(a.v, factor)}; }
#endif

#define SHARDMILL_PASS_8(Vector, y)                                                           \
  do {                                                                                        \
    const Vector sum = add(y[0], y[4]);                                                       \
    const Vector difference = subtract(y[0], y[4]);                                           \
    const Vector even_high = add(add(y[2], times(y[2], kCos2)), times(y[6], kSin2));          \
    const Vector even_low = subtract(subtract(times(y[2], kSin2), times(y[6], kCos2)), y[6]); \
    const Vector e0 = add(sum, even_high);                                                    \
    const Vector e3 = subtract(sum, even_high);                                               \
    const Vector e1 = add(difference, even_low);                                              \
    const Vector e2 = subtract(difference, even_low);                                         \
    const Vector three = add(y[3], times(y[3], kRoot2));                                      \
    const Vector five = add(y[5], times(y[5], kRoot2));                                       \
    const Vector a = add(y[1], y[7]);                                                         \
    const Vector b = subtract(y[1], y[7]);                                                    \
    const Vector p = add(a, three);                                                           \
    const Vector q = add(b, five);                                                            \
    const Vector r = subtract(a, three);                                                      \
    const Vector s = subtract(b, five);                                                       \
    const Vector o0 = add(times(p, kCos3), times(q, kSin3));                                  \
    const Vector o3 = subtract(times(q, kCos3), times(p, kSin3));                             \
    const Vector o1 = add(times(s, kCos1), times(r, kSin1));                                  \
    const Vector o2 = subtract(times(r, kCos1), times(s, kSin1));                             \
    y[0] = add(e0, o0), y[7] = subtract(e0, o0);                                              \
    y[1] = add(e1, o1), y[6] = subtract(e1, o1);                                              \
    y[2] = add(e2, o2), y[5] = subtract(e2, o2);                                              \
    y[3] = add(e3, o3), y[4] = subtract(e3, o3);                                              \
  } while (false)

#define SHARDMILL_PASS_4(Vector, y)                                                             \
  do {                                                                                          \
    const Vector two = times(y[2], kHalf2);                                                     \
    const Vector e0 = add(y[0], two);                                                           \
    const Vector e1 = subtract(y[0], two);                                                      \
    const Vector o0 = add(add(y[1], times(y[1], kHalf1Cos)), times(y[3], kHalf3Sin));           \
    const Vector o1 = subtract(subtract(times(y[1], kHalf1Sin), times(y[3], kHalf3Cos)), y[3]); \
    y[0] = add(e0, o0), y[3] = subtract(e0, o0);                                                \
    y[1] = add(e1, o1), y[2] = subtract(e1, o1);                                                \
  } while (false)

std::uint8_t sample(std::int32_t value) {
  return static_cast<std::uint8_t>(std::clamp(value >> kShift, 0, 255));
}

template <std::size_t kSize>
void transform_portable(const std::int16_t* block, std::uint8_t* out, std::size_t stride) {
  One work[kSize][kSize];  // by rows
  for (std::size_t row = 0; row < kSize; ++row) {
    One y[kSize];
    for (std::size_t i = 0; i < kSize; ++i) y[i].v = block[i * 8 + row];
    if (row == 0) y[0] = One::saturated(y[0].v + kBias);
    if constexpr (kSize == 8) {
      SHARDMILL_PASS_8(One, y);
    } else {
      SHARDMILL_PASS_4(One, y);
    }
    std::copy_n(y, kSize, work[row]);
  }
  for (std::size_t column = 0; column < kSize; ++column) {
    One y[kSize];
    for (std::size_t i = 0; i < kSize; ++i) y[i] = work[i][column];
    if constexpr (kSize == 8) {
      SHARDMILL_PASS_8(One, y);
    } else {
      SHARDMILL_PASS_4(One, y);
    }
    for (std::size_t i = 0; i < kSize; ++i) out[i * stride + column] = sample(y[i].v);
  }
}

}  // namespace

namespace {

template <std::size_t kSize>
void transform_pair(const std::int16_t* blocks, std::uint8_t* out, std::size_t stride) {
  transform_portable<kSize>(blocks, out, stride);
  transform_portable<kSize>(blocks + 64, out + kSize, stride);
}

constexpr Transforms kPortable = {&transform_pair<8>, &transform_pair<4>, false};

}  // namespace

const Transforms& portable_transforms() noexcept { return kPortable; }

void inverse_dct_2(const std::int16_t* blocks, std::uint8_t* out, std::size_t stride) {
  for (int i = 0; i < 2; ++i, blocks += 64, out += 2) {
    const std::int32_t sum = blocks[0] + kBias;
    const std::int32_t x = (blocks[8] * kQuarter1 + (1 << 14)) >> 15;
    const std::int32_t y = (blocks[1] * kQuarter1 + (1 << 14)) >> 15;
    const std::int32_t both =
        (((blocks[9] * kQuarter1 + (1 << 14)) >> 15) * kQuarter1 + (1 << 14)) >> 15;
    out[0] = sample(sum + x + y + both);
    out[1] = sample(sum - x + y - both);
    out[stride] = sample(sum + x - y - both);
    out[stride + 1] = sample(sum - x - y + both);
  }
}

void inverse_dct_1(const std::int16_t* blocks, std::uint8_t* out, std::size_t) {
  out[0] = sample(blocks[0] + kBias);
  out[1] = sample(blocks[64] + kBias);
}

#if defined(__x86_64__)
namespace {

SHARDMILL_AVX2 inline __m256i load_pair(const std::int16_t* block) {
  const __m128i low = _mm_load_si128(reinterpret_cast<const __m128i*>(block));
  const __m128i high = _mm_load_si128(reinterpret_cast<const __m128i*>(block + 64));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

// Turns the 8 × 8 elements of each half, in place.
SHARDMILL_AVX2 inline void transpose_8(Sixteen (&y)[8]) {
  const __m256i a0 = _mm256_unpacklo_epi16(y[0].v, y[1].v);
  const __m256i a1 = _mm256_unpackhi_epi16(y[0].v, y[1].v);
  const __m256i a2 = _mm256_unpacklo_epi16(y[2].v, y[3].v);
  const __m256i a3 = _mm256_unpackhi_epi16(y[2].v, y[3].v);
  const __m256i a4 = _mm256_unpacklo_epi16(y[4].v, y[5].v);
  const __m256i a5 = _mm256_unpackhi_epi16(y[4].v, y[5].v);
  const __m256i a6 = _mm256_unpacklo_epi16(y[6].v, y[7].v);
  const __m256i a7 = _mm256_unpackhi_epi16(y[6].v, y[7].v);
  const __m256i b0 = _mm256_unpacklo_epi32(a0, a2);
  const __m256i b1 = _mm256_unpackhi_epi32(a0, a2);
  const __m256i b2 = _mm256_unpacklo_epi32(a1, a3);
  const __m256i b3 = _mm256_unpackhi_epi32(a1, a3);
  const __m256i b4 = _mm256_unpacklo_epi32(a4, a6);
  const __m256i b5 = _mm256_unpackhi_epi32(a4, a6);
  const __m256i b6 = _mm256_unpacklo_epi32(a5, a7);
  const __m256i b7 = _mm256_unpackhi_epi32(a5, a7);
  y[0].v = _mm256_unpacklo_epi64(b0, b4);
  y[1].v = _mm256_unpackhi_epi64(b0, b4);
  y[2].v = _mm256_unpacklo_epi64(b1, b5);
  y[3].v = _mm256_unpackhi_epi64(b1, b5);
  y[4].v = _mm256_unpacklo_epi64(b2, b6);
  y[5].v = _mm256_unpackhi_epi64(b2, b6);
  y[6].v = _mm256_unpacklo_epi64(b3, b7);
  y[7].v = _mm256_unpackhi_epi64(b3, b7);
}

// Two rows of both blocks: the rows of the second stand in the upper half.
SHARDMILL_AVX2 inline void store_rows(Sixteen first, Sixteen second, std::uint8_t* out,
                                      std::size_t stride) {
  const __m256i bytes =
      _mm256_packus_epi16(_mm256_srai_epi16(first.v, kShift), _mm256_srai_epi16(second.v, kShift));
  const __m256i rows = _mm256_permute4x64_epi64(bytes, 0xd8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(rows));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out + stride), _mm256_extracti128_si256(rows, 1));
}

SHARDMILL_AVX2 inline Eight load_halves(const std::int16_t* block) {
  const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(block));
  const __m128i high = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(block + 64));
  return {_mm_unpacklo_epi64(low, high)};
}

SHARDMILL_AVX2 void to_8_avx2(const std::int16_t* blocks, std::uint8_t* out, std::size_t stride) {
  Sixteen y[8];
  for (std::size_t i = 0; i < 8; ++i) y[i].v = load_pair(blocks + 8 * i);
  const __m128i bias = _mm_cvtsi32_si128(kBias);
  y[0].v = _mm256_adds_epi16(y[0].v, _mm256_set_m128i(bias, bias));
  SHARDMILL_PASS_8(Sixteen, y);
  transpose_8(y);
  SHARDMILL_PASS_8(Sixteen, y);
  for (std::size_t i = 0; i < 8; i += 2) store_rows(y[i], y[i + 1], out + i * stride, stride);
}

SHARDMILL_AVX2 void to_4_avx2(const std::int16_t* blocks, std::uint8_t* out, std::size_t stride) {
  Eight y[4];
  for (std::size_t i = 0; i < 4; ++i) y[i] = load_halves(blocks + 8 * i);
  y[0].v = _mm_adds_epi16(y[0].v, _mm_set_epi16(0, 0, 0, kBias, 0, 0, 0, kBias));
  SHARDMILL_PASS_4(Eight, y);
  // The 4 × 4 elements of each half are turned.
  const __m128i a0 = _mm_unpacklo_epi16(y[0].v, y[1].v);
  const __m128i a1 = _mm_unpackhi_epi16(y[0].v, y[1].v);
  const __m128i a2 = _mm_unpacklo_epi16(y[2].v, y[3].v);
  const __m128i a3 = _mm_unpackhi_epi16(y[2].v, y[3].v);
  const __m128i b0 = _mm_unpacklo_epi32(a0, a2);
  const __m128i b1 = _mm_unpackhi_epi32(a0, a2);
  const __m128i b2 = _mm_unpacklo_epi32(a1, a3);
  const __m128i b3 = _mm_unpackhi_epi32(a1, a3);
  y[0].v = _mm_unpacklo_epi64(b0, b2);
  y[1].v = _mm_unpackhi_epi64(b0, b2);
  y[2].v = _mm_unpacklo_epi64(b1, b3);
  y[3].v = _mm_unpackhi_epi64(b1, b3);
  SHARDMILL_PASS_4(Eight, y);
  for (std::size_t i = 0; i < 4; i += 2) {
    const __m128i bytes =
        _mm_packus_epi16(_mm_srai_epi16(y[i].v, kShift), _mm_srai_epi16(y[i + 1].v, kShift));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out + i * stride), bytes);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out + (i + 1) * stride),
                     _mm_unpackhi_epi64(bytes, bytes));
  }
}

constexpr Transforms kAvx2 = {&to_8_avx2, &to_4_avx2, true};

}  // namespace

const Transforms& best_transforms() noexcept {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  return has_avx2 ? kAvx2 : kPortable;
}
#elif defined(__aarch64__)
namespace {

int16x8_t low_32(int16x8_t a, int16x8_t b) {
  return vreinterpretq_s16_s32(vzip1q_s32(vreinterpretq_s32_s16(a), vreinterpretq_s32_s16(b)));
}
int16x8_t high_32(int16x8_t a, int16x8_t b) {
  return vreinterpretq_s16_s32(vzip2q_s32(vreinterpretq_s32_s16(a), vreinterpretq_s32_s16(b)));
}
int16x8_t low_64(int16x8_t a, int16x8_t b) {
  return vreinterpretq_s16_s64(vzip1q_s64(vreinterpretq_s64_s16(a), vreinterpretq_s64_s16(b)));
}
int16x8_t high_64(int16x8_t a, int16x8_t b) {
  return vreinterpretq_s16_s64(vzip2q_s64(vreinterpretq_s64_s16(a), vreinterpretq_s64_s16(b)));
}

void transpose_8(Eight (&y)[8]) {
  int16x8_t a[8], b[8];
  for (int i = 0; i < 8; i += 2) {
    a[i] = vzip1q_s16(y[i].v, y[i + 1].v);
    a[i + 1] = vzip2q_s16(y[i].v, y[i + 1].v);
  }
  for (int i = 0; i < 8; i += 4) {
    b[i] = low_32(a[i], a[i + 2]);
    b[i + 1] = high_32(a[i], a[i + 2]);
    b[i + 2] = low_32(a[i + 1], a[i + 3]);
    b[i + 3] = high_32(a[i + 1], a[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    y[2 * i].v = low_64(b[i], b[i + 4]);
    y[2 * i + 1].v = high_64(b[i], b[i + 4]);
  }
}

void to_8_neon(const std::int16_t* block, std::uint8_t* out, std::size_t stride) {
  Eight y[8];
  for (std::size_t i = 0; i < 8; ++i) y[i].v = vld1q_s16(block + 8 * i);
  y[0].v = vqaddq_s16(y[0].v, vsetq_lane_s16(kBias, vdupq_n_s16(0), 0));
  SHARDMILL_PASS_8(Eight, y);
  transpose_8(y);
  SHARDMILL_PASS_8(Eight, y);
  for (std::size_t i = 0; i < 8; ++i) {
    vst1_u8(out + i * stride, vqmovun_s16(vshrq_n_s16(y[i].v, kShift)));
  }
}

void pair_to_8_neon(const std::int16_t* blocks, std::uint8_t* out, std::size_t stride) {
  to_8_neon(blocks, out, stride);
  to_8_neon(blocks + 64, out + 8, stride);
}

// Two blocks at once, one in each half of a vector.
void pair_to_4_neon(const std::int16_t* blocks, std::uint8_t* out, std::size_t stride) {
  Eight y[4];
  for (std::size_t i = 0; i < 4; ++i) {
    y[i].v = vcombine_s16(vld1_s16(blocks + 8 * i), vld1_s16(blocks + 64 + 8 * i));
  }
  const int16x8_t bias = vsetq_lane_s16(kBias, vdupq_n_s16(0), 0);
  y[0].v = vqaddq_s16(y[0].v, vsetq_lane_s16(kBias, bias, 4));
  SHARDMILL_PASS_4(Eight, y);
  const int16x8_t a0 = vzip1q_s16(y[0].v, y[1].v);
  const int16x8_t a1 = vzip2q_s16(y[0].v, y[1].v);
  const int16x8_t a2 = vzip1q_s16(y[2].v, y[3].v);
  const int16x8_t a3 = vzip2q_s16(y[2].v, y[3].v);
  const int16x8_t b0 = low_32(a0, a2);
  const int16x8_t b1 = high_32(a0, a2);
  const int16x8_t b2 = low_32(a1, a3);
  const int16x8_t b3 = high_32(a1, a3);
  y[0].v = low_64(b0, b2);
  y[1].v = high_64(b0, b2);
  y[2].v = low_64(b1, b3);
  y[3].v = high_64(b1, b3);
  SHARDMILL_PASS_4(Eight, y);
  for (std::size_t i = 0; i < 4; ++i) {
    vst1_u8(out + i * stride, vqmovun_s16(vshrq_n_s16(y[i].v, kShift)));
  }
}

constexpr Transforms kNeon = {&pair_to_8_neon, &pair_to_4_neon, true};

}  // namespace

const Transforms& best_transforms() noexcept { return kNeon; }
#else
const Transforms& best_transforms() noexcept { return kPortable; }
#endif

}  // namespace shardmill::internal
