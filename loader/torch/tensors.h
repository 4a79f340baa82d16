// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/loader.h>
#include <torch/types.h>

#include <map>
#include <string>
#include <string_view>

namespace shardmill {

/// Returns output `name` of a batch as a CPU tensor of shape (rows, row shape…) that borrows the
/// batch's memory: nothing is copied, and the slot stays lent until the last tensor, view or batch
/// over it is gone, even after the Loader. Images are uint8 (rows, height, width, 3); permute and
/// convert on the device you train on. `is_pinned()` is true where the loader pins memory. Throws
/// kNotFound, kInvalidArgument for a ragged output, kUnsupported for a dtype that this LibTorch
/// lacks (uint16, uint32, uint64).
at::Tensor to_tensor(const Batch& batch, std::string_view name);

/// The two tensors of a ragged output: value i is values[offsets[i] .. offsets[i + 1]).
struct RaggedTensor {
  at::Tensor values;   ///< uint8, one dimension.
  at::Tensor offsets;  ///< int64, rows + 1.
};

/// Returns a ragged output as two borrowing tensors.
RaggedTensor to_ragged_tensor(const Batch& batch, std::string_view name);

/// Returns all outputs that are not ragged, by name.
std::map<std::string, at::Tensor> to_tensors(const Batch& batch);

}  // namespace shardmill
