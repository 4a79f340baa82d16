// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/verify.h>

#include <string>
#include <vector>

namespace shardmill::internal {

/// Returns the command line that removes the damaged files of the DATASET `spec` and converts them
/// again; empty if there is no damage, or what the dataset was made of is not known.
std::string rebuild_commands(const std::string& spec, const std::vector<Damage>& damaged);

}  // namespace shardmill::internal
