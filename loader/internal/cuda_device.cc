// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "loader/internal/device.h"

namespace shardmill::internal {

namespace {

class CudaDevice : public Device {
 public:
  std::string unavailable() override {
    int devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess) {
      cudaGetLastError();  // leaves no error behind for the trainer's own calls
      return std::string("CUDA says: ") + cudaGetErrorString(error);
    }
    return devices > 0 ? std::string() : "CUDA finds no device";
  }

  std::string pin(std::byte* data, std::size_t bytes) override {
    const cudaError_t error = cudaHostRegister(data, bytes, cudaHostRegisterPortable);
    if (error == cudaSuccess) return {};
    cudaGetLastError();
    return cudaGetErrorString(error);
  }

  void unpin(std::byte* data) noexcept override {
    // Fails harmlessly where the driver is shutting down already.
    if (cudaHostUnregister(data) != cudaSuccess) cudaGetLastError();
  }
};

}  // namespace

std::shared_ptr<Device> make_cuda_device() { return std::make_shared<CudaDevice>(); }

}  // namespace shardmill::internal
