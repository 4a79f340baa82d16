// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace shardmill::hdf5 {

/// The filter's number.
inline constexpr int kLzfFilter = 32000;

/// Decompresses LZF bytes into `out`; returns how many there are, 0 if `in` is damaged or they do
/// not fit.
std::size_t lzf_decompress(std::span<const std::byte> in, std::span<std::byte> out) noexcept;

/// Teaches the HDF5 library to read the filter 32000, with which h5py writes compression="lzf".
/// May be called often. REQUIRES: a Session.
void register_lzf() noexcept;

}  // namespace shardmill::hdf5
