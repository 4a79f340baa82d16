// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "loader/internal/control.h"
#include "loader/internal/layout.h"

namespace shardmill::internal {

/// Takes the bad rows out of a complete slot: later rows move up, in every output and in the
/// slot's own words; `rows` counts those left. Trainer only.
void drop_bad_rows(const SlotControl& slot, const SlotMemory& memory,
                   std::span<const Output> outputs, std::span<const OutputPlace> places);

}  // namespace shardmill::internal
