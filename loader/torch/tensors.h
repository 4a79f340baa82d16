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
/// over it is gone, even after the Loader. Where memory is page-locked (`is_pinned()` is true) the
/// slot is used again only when the stream that is current in the thread which drops the last
/// tensor has done what it was given so far: copies begun with `to(device, true)` are safe.
///
/// Images are uint8 (rows, height, width, 3); permute and convert on the device you train on.
/// Throws kNotFound, kInvalidArgument for a ragged output, kUnsupported for a dtype that this
/// LibTorch lacks (uint16, uint32, uint64).
at::Tensor to_tensor(const Batch& batch, std::string_view name);

/// The tensors of a ragged output: value i is values[offsets[i] .. offsets[i + 1]), and of a list
/// output (where `lengths` is defined) values[offsets[i] .. offsets[i] + lengths[i]).
struct RaggedTensor {
  at::Tensor values;   ///< One dimension: uint8, or the dtype of tokens.
  at::Tensor offsets;  ///< int64.
  at::Tensor lengths;  ///< int64; list outputs only.
};

/// Returns a ragged output as borrowing tensors.
RaggedTensor to_ragged_tensor(const Batch& batch, std::string_view name);

/// Returns everything in a batch by name: each output that is not ragged as `NAME`, a ragged one
/// as `NAME.values`, `NAME.offsets` and for a list `NAME.lengths`; the true extents of a padded
/// one, int64 (rows, extents), as `NAME.sizes`; the mask of an optional one, bool (rows), as
/// `NAME.present`; and, where a row is padding of the ranks, `valid`, bool (rows).
std::map<std::string, at::Tensor> to_tensors(const Batch& batch);

}  // namespace shardmill
