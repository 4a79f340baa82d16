// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/stats.h>

#include "loader/internal/control.h"
#include "loader/internal/stats_file.h"

namespace shardmill::internal {

/// Returns what the statistics file says, and from it the verdict.
LoaderStats read_stats(const StatsFile& file);
/// Adds what the control file says about deaths.
void read_deaths(const Control& control, LoaderStats& stats);

}  // namespace shardmill::internal
