// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/convert.h>

namespace shardmill::internal {

/// Throws kInvalidArgument for options that cannot be, or do not go together.
void check_options(const ConvertOptions& options);

}  // namespace shardmill::internal
