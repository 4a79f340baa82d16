// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/loader.h>
#include <torch/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shardmill {

namespace internal {
class CopyEngine;
}

/// A batch on a device.
struct DeviceBatch {
  std::uint64_t epoch = 0;
  std::uint64_t index = 0;               ///< Number within the epoch, from 0.
  std::vector<std::uint64_t> samples;    ///< Each row's sample number.
  std::vector<std::uint64_t> positions;  ///< Each row's global position in the epoch.
  std::vector<std::string> keys;         ///< Each row's key.
  /// Everything as to_tensors() names it, on the device; `valid` is there where ranks are padded.
  std::map<std::string, at::Tensor> tensors;

  std::size_t size() const noexcept { return samples.size(); }
  /// Returns the tensor called `name`; throws kNotFound listing the names there are.
  const at::Tensor& operator[](const std::string& name) const;
};

/// Copies a loader's batches to a device while the one before is being used: the next batch's
/// copies run on a stream of their own, from page-locked memory (LoaderOptions::pin_memory), and
/// the memory they read is used again only when they have ended. The consumer's stream, the
/// current one at next(), waits for the copies by itself; the tensors are then its own and live as
/// long as it needs them.
///
///     DeviceLoader batches(loader, torch::kCUDA);
///     for (std::uint64_t epoch = 0; epoch < 10; ++epoch) {
///       batches.start_epoch(epoch);
///       for (DeviceBatch batch; batches.next(batch);) train(batch["image"], batch["label"]);
///     }
///
/// With torch::kCPU the tensors are the loader's own, nothing is copied. One thread at a time. The
/// loader must outlive it, and is not used directly meanwhile but for stats().
class DeviceLoader {
 public:
  DeviceLoader(Loader& loader, const at::Device& device);
  /// With an engine of the caller's. For tests.
  DeviceLoader(Loader& loader, std::unique_ptr<internal::CopyEngine> engine);
  ~DeviceLoader();
  DeviceLoader(const DeviceLoader&) = delete;
  DeviceLoader& operator=(const DeviceLoader&) = delete;

  /// As Loader::start_epoch(); gives up a batch that was on its way.
  void start_epoch(std::uint64_t epoch);
  /// As Loader::next(); also begins to copy the batch behind it if that one is ready.
  bool next(DeviceBatch& batch);
  /// As Loader::state(): counts batches that this next() has delivered.
  std::string state() const;

 private:
  struct Ahead;
  bool begin_copy();

  Loader& loader_;
  std::unique_ptr<internal::CopyEngine> engine_;
  std::unique_ptr<Ahead> ahead_;  // on its way
  std::string state_;             // behind the last delivered batch, while another is on its way
};

}  // namespace shardmill
