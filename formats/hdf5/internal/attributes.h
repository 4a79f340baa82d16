// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "formats/hdf5/internal/hdf5_handles.h"
#include "formats/hdf5/internal/output_driver.h"

namespace shardmill::hdf5 {

/// Adds an attribute: one int64, or a vector of uint64. Throws kInternal where that fails.
void add_attribute(hid_t object, const char* name, std::int64_t value);
void add_attribute(hid_t object, const char* name, std::span<const std::uint64_t> values);

/// Fills in `shardmill_structure` of a complete, closed file, in place.
/// REQUIRES: the attribute exists, with two zeros.
void write_structure(const std::filesystem::path& file, OutputStatus& status);

}  // namespace shardmill::hdf5
