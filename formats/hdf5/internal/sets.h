// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardmill::hdf5 {

/// A dataset with rows in somebody's file.
struct Rows {
  std::string name;  ///< Its path in the file.
  std::uint64_t count = 0;
};

/// Returns the part of `inner` (`/train`, `train_`) in the datasets' paths: a dataset, a group with
/// its '/', or the beginning of names. Empty if no dataset is meant.
std::string chosen_prefix(const std::string& inner, const std::vector<std::string>& datasets);

/// Returns what a dataset is called as a field, of those that begin with `prefix`.
std::string field_name(const std::string& dataset, const std::string& prefix);

/// Throws kInvalidArgument unless all have one length: with the lengths, and how to choose.
void require_one_length(const std::vector<Rows>& datasets, const std::string& path);

}  // namespace shardmill::hdf5
