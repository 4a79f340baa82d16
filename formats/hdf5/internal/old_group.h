// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>

#include <string>
#include <vector>

#include "formats/hdf5/internal/object_header.h"
#include "formats/hdf5/internal/superblock.h"

namespace shardmill::hdf5 {

/// Checks the group with this object header if it is stored as files before HDF5 1.8 have it (which
/// h5py writes to this day): a B-tree, tables of symbols and a heap of names, none of them with a
/// checksum. The library believes what they say and crashes on some damage. Throws kDataLoss.
void check_old_group(internal::InputFile& file, const Superblock& superblock,
                     const std::vector<HeaderMessage>& header, const std::string& place);

/// Checks where the superblock says that the root group's tree and heap are, if it does.
void check_cached_root(internal::InputFile& file, const Superblock& superblock);

}  // namespace shardmill::hdf5
