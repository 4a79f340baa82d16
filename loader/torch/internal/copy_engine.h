// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <vector>

namespace shardmill::internal {

/// How tensors come to a device beside what the consumer computes there. A stand-in replaces it in
/// tests.
class CopyEngine {
 public:
  virtual ~CopyEngine() = default;
  /// Begins to copy `host` on the engine's own stream and returns the copy.
  virtual at::Tensor copy(const at::Tensor& host) = 0;
  /// Marks the end of the copies begun so far; true once they have ended. Any thread may ask.
  virtual std::function<bool()> mark() = 0;
  /// Makes the consumer's current stream wait for the copies up to the last mark(), and keeps the
  /// memory of `copies` until what that stream then does with them has ended.
  virtual void hand_over(const std::vector<at::Tensor>& copies) = 0;
};

/// Returns the engine for `device`; for the CPU one that copies nothing.
std::unique_ptr<CopyEngine> make_copy_engine(const at::Device& device);

}  // namespace shardmill::internal
