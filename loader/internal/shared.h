// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/dataset.h>
#include <shardmill/loader/options.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "loader/internal/control.h"
#include "loader/internal/ring.h"
#include "loader/system/memory_file.h"

namespace shardmill::internal {

/// Everything that trainer, nursery and workers have in common: made by the trainer before it
/// forks, inherited by the others.
struct Shared {
  std::string spec;                ///< The dataset; an absolute path where it is one.
  std::optional<Dataset> dataset;  ///< Once opened; in workers attached to `index`.
  LoaderOptions options;           ///< Outputs are resolved once `dataset` is there.
  MemoryFile control_file;
  MemoryFile stats_file;
  MemoryFile index;  ///< IndexHeader, resolved outputs (JSON), Dataset::flat().
  std::shared_ptr<Ring> ring;
  ControlView control;

  StatsFile& stats() const noexcept { return *reinterpret_cast<StatsFile*>(stats_file.data()); }
};

/// Makes the shared memory for `options`, which were checked.
Shared make_shared_state(std::string spec, LoaderOptions options);

/// Writes an open dataset and the resolved outputs into the index file.
void write_index(Shared& shared, const Dataset& dataset);
/// Maps the index file, sets `dataset` and the resolved outputs from it.
void attach_index(Shared& shared);

}  // namespace shardmill::internal
