// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/batch.h>
#include <shardmill/loader/outputs.h>

#include <span>
#include <vector>

#include "loader/internal/control.h"
#include "loader/internal/layout.h"

namespace shardmill::internal {

/// Appends to `filled` what a complete slot holds of each of `outputs`. Trainer only.
void fill_outputs(std::span<const Output> outputs, std::span<const OutputPlace> places,
                  const SlotControl& slot, const SlotMemory& memory,
                  std::vector<BatchOutput>& filled);

}  // namespace shardmill::internal
