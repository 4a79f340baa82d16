// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/array.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardmill::internal {

// Numbers on their way from fields into rows. All throw Error without path and place.

/// True for the dtypes that convert_numbers() and parse_number() can write.
bool is_number(DType dtype) noexcept;
bool is_integer(DType dtype) noexcept;

/// True if elements of `dtype` have the value `value`, rounded where they are no integers.
bool fits(double value, DType dtype);

/// Writes the elements of an array, in C order, to `out` as `to`. Throws kInvalidArgument if one
/// does not fit: integers outside the range, fractions into integers, complex numbers.
void convert_numbers(const NpyView& from, DType to, std::byte* out);

/// Writes the decimal number in `text` (blanks around it allowed) to `out` as `to`.
void parse_number(std::string_view text, DType to, std::byte* out);

/// Writes `count` elements of `value` to `out`, rounded for integers. REQUIRES: fits(value, dtype).
void fill_numbers(DType dtype, double value, std::byte* out, std::uint64_t count);

}  // namespace shardmill::internal
