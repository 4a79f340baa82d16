// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shardmill {

/// Which of several cooperating processes this one is.
struct RankInfo {
  int rank = 0;
  int world_size = 1;
  std::string source = {};  ///< Where it was found, e.g. "RANK, WORLD_SIZE"; empty: nowhere.
};

/// Looks for this process's rank in the environment, as launchers set it: RANK + WORLD_SIZE
/// (torchrun), OMPI_COMM_WORLD_RANK + _SIZE (Open MPI's mpirun), SLURM_PROCID +
/// SLURM_STEP_NUM_TASKS (srun; a batch script alone has no step and is one process), in this
/// order. A pair counts only if both are set. Throws kInvalidArgument naming a variable that is
/// no number, or a rank outside its world.
RankInfo detect_rank();

}  // namespace shardmill
