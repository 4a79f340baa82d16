// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "formats/hdf5/internal/catalog.h"

namespace shardmill::hdf5 {

/// SHA-256 of a dataset's values in hexadecimal, or why there is none.
struct ValueSum {
  std::string sha256;
  std::string reason;
};

/// Hashes the values of a dataset in C order, numbers little-endian, strings without padding and
/// joined by NUL, sequences one behind the other; of one member if the dataset has a compound type
/// and `member` is given. Throws kDataLoss with `path` for values that cannot be read; a type that
/// has no such bytes, a filter that is not there, and values in other files are reasons.
ValueSum hash_values(const OpenDataset& dataset, const std::string& path,
                     const std::string& member = {});

}  // namespace shardmill::hdf5
