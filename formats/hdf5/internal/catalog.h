// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/hdf5/internal/element_type.h"
#include "formats/hdf5/internal/hdf5_handles.h"

namespace shardmill::hdf5 {

/// What stands in a file: the paths of its datasets in name order, and a sentence for each link
/// that was not followed (soft, external, user-defined, groups seen already).
struct Catalog {
  std::vector<std::string> datasets;  ///< Absolute, e.g. "/train/images".
  std::vector<std::string> warnings;
};

/// Lists the datasets of a file, groups included; every group is entered once.
Catalog list_datasets(hid_t file, const std::string& path);

/// The names of the links in a group, sorted by bytes.
std::vector<std::string> link_names(hid_t group, const std::string& path);

/// One open dataset and what there is to know before reading it.
struct OpenDataset {
  std::string name;  ///< Its path in the file; the place in messages.
  DatasetHandle dataset;
  TypeHandle type;
  std::optional<Element> element;
  bool null_space = false;
  std::vector<std::uint64_t> dims;  ///< Empty for a scalar.
  H5D_layout_t layout = H5D_CONTIGUOUS;
  std::vector<std::uint64_t> chunk;  ///< Chunk extents if layout is H5D_CHUNKED.
  std::vector<std::string> filters;  ///< Names, in the order of writing.
  bool external = false;             ///< Has external storage.

  /// True if values lie in other files; where those are missing the library gives zeros or fill
  /// values without a word.
  bool elsewhere() const noexcept { return external || layout == H5D_VIRTUAL; }
  std::string place() const { return "dataset \"" + escape(name) + "\""; }
};

/// Opens a dataset. Throws kDataLoss with `path` where the library cannot make sense of it.
OpenDataset open_dataset(hid_t file, const std::string& path, const std::string& name);

/// Throws kUnsupported naming the filters if the library lacks one that the dataset needs.
void check_filters(const OpenDataset& dataset, const std::string& path);

}  // namespace shardmill::hdf5
