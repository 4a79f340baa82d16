// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/hdf5/internal/index.h"

namespace shardmill::hdf5 {

inline constexpr std::string_view kKeyGroup = "__key__";
inline constexpr std::string_view kPresentSuffix = "__present";
inline constexpr const char* kVersionAttribute = "shardmill_version";
inline constexpr const char* kStructureAttribute = "shardmill_structure";
inline constexpr const char* kClassAttribute = "shardmill_class";
inline constexpr std::uint64_t kLayoutVersion = 1;

/// Looks where everything lies in a file: our layout if its root says so, else every dataset of
/// one common length as a field. The only place that reads HDF5's metadata. Throws kDataLoss for
/// damage, kUnsupported and kInvalidArgument (naming the datasets) for what cannot be read.
/// With `inner`, only the datasets of that group, or whose names begin so.
IndexBuilder build_index(const std::string& path, const std::string& inner = {});

}  // namespace shardmill::hdf5
