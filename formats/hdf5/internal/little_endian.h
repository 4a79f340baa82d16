// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>

namespace shardmill::hdf5 {

static_assert(std::endian::native == std::endian::little, "numbers are lent as they are stored");

/// Reads a number at any alignment. REQUIRES: at + sizeof(T) <= bytes.size().
template <std::integral T>
T little_endian(std::span<const std::byte> bytes, std::size_t at) noexcept {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace shardmill::hdf5
