// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shardmill::hdf5 {

/// Implements Format::describe() for HDF5: lists every dataset of a file of any layout.
std::string describe(const std::string& path, bool hash);

}  // namespace shardmill::hdf5
