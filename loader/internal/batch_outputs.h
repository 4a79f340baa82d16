// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/batch.h>

#include <span>
#include <vector>

#include "loader/internal/layout.h"

namespace shardmill::internal {

/// Views the first `rows` rows of a complete slot as a batch's outputs. Copies nothing.
std::vector<BatchOutput> batch_outputs(std::span<const Output> outputs,
                                       std::span<const OutputPlace> places, const SlotControl& slot,
                                       const SlotMemory& memory, std::size_t rows);

}  // namespace shardmill::internal
