// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/device.h"

#include <mutex>
#include <utility>

namespace shardmill::internal {

namespace {

std::mutex mutex;
std::shared_ptr<Device> for_testing;

#ifndef SHARDMILL_HAS_CUDA
class NoDevice : public Device {
 public:
  std::string unavailable() override { return "this build of shardmill has no CUDA support"; }
  std::string pin(std::byte*, std::size_t) override { return unavailable(); }
  void unpin(std::byte*) noexcept override {}
  Done mark(void*) override {
    return [] { return true; };
  }
};
#endif

}  // namespace

std::shared_ptr<Device> default_device() {
#ifdef SHARDMILL_HAS_CUDA
  return make_cuda_device();
#else
  return std::make_shared<NoDevice>();
#endif
}

void set_device_for_testing(std::shared_ptr<Device> device) {
  const std::lock_guard lock(mutex);
  for_testing = std::move(device);
}

std::shared_ptr<Device> current_device() {
  const std::lock_guard lock(mutex);
  return for_testing ? for_testing : default_device();
}

}  // namespace shardmill::internal
