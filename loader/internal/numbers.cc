// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/numbers.h"

#include <shardmill/formats/error.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "loader/decode/internal/pixel_kernels.h"

namespace shardmill::internal {

namespace {

// Calls `with` with a value of the C++ type of `dtype`.
template <class With>
void visit(DType dtype, const With& with) {
  switch (dtype) {
    case DType::kUInt8:
    case DType::kBool:
      return with(std::uint8_t{});
    case DType::kInt8:
      return with(std::int8_t{});
    case DType::kUInt16:
      return with(std::uint16_t{});
    case DType::kInt16:
      return with(std::int16_t{});
    case DType::kUInt32:
      return with(std::uint32_t{});
    case DType::kInt32:
      return with(std::int32_t{});
    case DType::kUInt64:
      return with(std::uint64_t{});
    case DType::kInt64:
      return with(std::int64_t{});
    case DType::kFloat32:
      return with(float{});
    case DType::kFloat64:
      return with(double{});
    case DType::kFloat16:
    case DType::kComplex64:
    case DType::kComplex128:
      break;
  }
  throw Error(ErrorCode::kInvalidArgument, {}, {},
              "numbers of " + std::string(dtype_name(dtype)) + " are not converted",
              "declare the output as an array, or compute it");
}

// True if the integer type To has the value `value`. The upper bound is a power of two, which a
// double holds exactly.
template <class To>
bool has_value(double value) {
  return std::trunc(value) == value && value < std::ldexp(1.0, std::numeric_limits<To>::digits) &&
         value >= static_cast<double>(std::numeric_limits<To>::min());
}

template <class To, class From>
To converted(From value, DType to) {
  bool fits = true;
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    fits = has_value<To>(static_cast<double>(value));
  } else if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
    fits = std::in_range<To>(value);
  }
  if (!fits) {
    throw Error(ErrorCode::kInvalidArgument, {}, {},
                std::to_string(value) + " does not fit into " + std::string(dtype_name(to)),
                "declare the output with a wider dtype");
  }
  return static_cast<To>(value);
}

constexpr double kMostHalf = 65504;  // the largest half-precision number

}  // namespace

bool is_number(DType dtype) noexcept {
  return dtype != DType::kFloat16 && dtype != DType::kComplex64 && dtype != DType::kComplex128;
}

bool is_integer(DType dtype) noexcept {
  return is_number(dtype) && dtype != DType::kFloat32 && dtype != DType::kFloat64 &&
         dtype != DType::kBool;
}

bool fits(double value, DType dtype) {
  if (dtype == DType::kFloat16) return std::abs(value) <= kMostHalf;
  bool found = false;
  visit(dtype, [&]<class To>(To) {
    found = std::is_integral_v<To> ? has_value<To>(value) : std::isfinite(static_cast<To>(value));
  });
  return found;
}

void convert_numbers(const NpyView& from, DType to, std::byte* out) {
  if (from.type.dtype == to) return canonical_elements(from, out);
  const std::byte* data = from.data.data();
  std::vector<std::byte> canonical;
  if (!from.canonical()) {
    canonical.resize(from.data.size());
    canonical_elements(from, canonical.data());
    data = canonical.data();
  }
  const std::uint64_t count = from.type.elements();
  visit(from.type.dtype, [&]<class From>(From) {
    visit(to, [&]<class To>(To) {
      for (std::uint64_t i = 0; i < count; ++i) {
        From value;
        std::memcpy(&value, data + i * sizeof value, sizeof value);
        const To made = converted<To>(value, to);
        std::memcpy(out + i * sizeof made, &made, sizeof made);
      }
    });
  });
}

void parse_number(std::string_view text, DType to, std::byte* out) {
  constexpr std::string_view kBlanks = " \n\r\t";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  const std::string_view digits =
      begin == std::string_view::npos
          ? std::string_view()
          : text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
  visit(to, [&]<class To>(To value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      throw Error(ErrorCode::kDataLoss, {}, {},
                  "not a decimal number of " + std::string(dtype_name(to)) + ": \"" +
                      escape(text.substr(0, 40)) + "\"");
    }
    std::memcpy(out, &value, sizeof value);
  });
}

void fill_numbers(DType dtype, double value, std::byte* out, std::uint64_t count) {
  if (value == 0) {
    std::memset(out, 0, count * dtype_size(dtype));
    return;
  }
  if (dtype == DType::kFloat16) {
    const std::uint16_t made = half_of(static_cast<float>(value));
    for (std::uint64_t i = 0; i < count; ++i) std::memcpy(out + 2 * i, &made, sizeof made);
    return;
  }
  visit(dtype, [&]<class To>(To) {
    const To made =
        std::is_integral_v<To> ? static_cast<To>(std::llround(value)) : static_cast<To>(value);
    for (std::uint64_t i = 0; i < count; ++i)
      std::memcpy(out + i * sizeof made, &made, sizeof made);
  });
}

}  // namespace shardmill::internal
