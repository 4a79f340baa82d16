// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "loader/internal/shared.h"

namespace shardmill::internal {

/// What a worker does all its life, in a process or a thread of its own: claims rows and makes
/// them until `leave` says so between two of them, or the control's `stop`. `serial` was never
/// used before; `row` is its place among the workers' words.
void work(Shared& shared, std::uint32_t serial, std::size_t row,
          const std::function<bool()>& leave);

}  // namespace shardmill::internal
