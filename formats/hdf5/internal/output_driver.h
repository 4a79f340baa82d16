// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "formats/hdf5/internal/hdf5_handles.h"

namespace shardmill::hdf5 {

/// How the bytes of a file being written fared. After the first failure nothing more is written
/// and the library is told that all is well: HDF5 1.10 cannot close a file whose metadata it
/// failed to write (it leaks it, and may abort or hang at exit). The writer looks here instead.
struct OutputStatus {
  int error = 0;         ///< errno of the first failed system call.
  bool discard = false;  ///< Set to write nothing more.
};

/// Returns file access properties that write through plain system calls and report to `status`,
/// which must outlive the file. `meta_block_bytes`: how much space is set aside for metadata at a
/// time, so that what is appended lies in long runs.
PropertyHandle output_access(OutputStatus& status, hsize_t meta_block_bytes);

}  // namespace shardmill::hdf5
