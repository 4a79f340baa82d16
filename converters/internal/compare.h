// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/verify.h>

#include <string>
#include <vector>

namespace shardmill::internal {

/// Returns the first samples and fields in which two undamaged datasets differ, in the order of
/// the first; at most a hundred. Needs 40 bytes of memory per sample of the second.
std::vector<Difference> first_differences(const std::string& first, const std::string& second,
                                          const Observer& observer);

}  // namespace shardmill::internal
