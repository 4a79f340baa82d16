// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/outputs.h>

#include <span>

#include "loader/internal/control.h"
#include "loader/internal/layout.h"

namespace shardmill::internal {

/// Lays the values of a slot whose rows are all done in row order: ragged ones behind each other,
/// padded ones as rows as large as the batch needs. Done again after a death it writes the same.
void pack_values(std::span<const Output> outputs, std::span<const OutputPlace> places,
                 const SlotControl& slot, const SlotMemory& memory);

}  // namespace shardmill::internal
