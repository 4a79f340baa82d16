// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/options.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "loader/internal/control.h"
#include "loader/internal/corpus.h"
#include "loader/internal/ring.h"
#include "loader/system/memory_file.h"

namespace shardmill::internal {

/// Everything that trainer, nursery and workers have in common: made by the trainer before it
/// forks, inherited by the others.
struct Shared {
  std::vector<std::string> specs;  ///< The datasets; absolute paths where they are paths.
  std::vector<double> weights;     ///< Of a mixture; empty for one dataset.
  Corpus corpus;                   ///< Once opened; in workers attached to `index`.
  LoaderOptions options;           ///< Outputs are resolved once `corpus` is there.
  MemoryFile control_file;
  MemoryFile stats_file;
  MemoryFile index;  ///< IndexHeader, resolved outputs (JSON), Dataset::flat() of each dataset.
  std::shared_ptr<Ring> ring;
  ControlView control;

  /// The datasets, for messages.
  std::string spec() const;
  StatsFile& stats() const noexcept { return *reinterpret_cast<StatsFile*>(stats_file.data()); }
};

/// Makes the shared memory for `options`, which were checked.
Shared make_shared_state(std::vector<std::string> specs, LoaderOptions options);

/// Opens the datasets that are not open yet.
Corpus open_corpus(const Shared& shared);
/// Writes an open corpus and the resolved outputs into the index file.
void write_index(Shared& shared, const Corpus& corpus);
/// Maps the index file, sets `corpus` and the resolved outputs from it.
void attach_index(Shared& shared);

}  // namespace shardmill::internal
