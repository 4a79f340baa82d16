// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace shardmill::internal {

/// True once some work of a GPU has ended; may be asked by any thread, again and again.
using Done = std::function<bool()>;

/// What the loader asks of a GPU's runtime. A stand-in replaces it in tests.
class Device {
 public:
  virtual ~Device() = default;
  /// Returns why memory cannot be page-locked here; empty if it can.
  virtual std::string unavailable() = 0;
  /// Page-locks [data, data + bytes) for the current device, portable. Returns the runtime's
  /// words for a failure; empty if it worked.
  virtual std::string pin(std::byte* data, std::size_t bytes) = 0;
  virtual void unpin(std::byte* data) noexcept = 0;
  /// Marks the end of what `stream` (a cudaStream_t; null: the default stream) of the device that
  /// memory was locked for has been given so far. Any thread.
  virtual Done mark(void* stream) = 0;
};

/// Returns the CUDA runtime, or in a build without CUDA a device that says so.
std::shared_ptr<Device> default_device();

/// Makes loaders constructed from now on use `device`; null: default_device(). For tests.
void set_device_for_testing(std::shared_ptr<Device> device);
std::shared_ptr<Device> current_device();

#ifdef SHARDMILL_HAS_CUDA
std::shared_ptr<Device> make_cuda_device();
#endif

}  // namespace shardmill::internal
