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
    if (error == cudaSuccess) {
      cudaGetDevice(&device_);
      return {};
    }
    cudaGetLastError();
    return cudaGetErrorString(error);
  }

  void unpin(std::byte* data) noexcept override {
    // Fails harmlessly where the driver is shutting down already.
    if (cudaHostUnregister(data) != cudaSuccess) cudaGetLastError();
  }

  Done mark(void* stream) override {
    // A thread that never chose a device would open a context on device 0.
    int before = 0;
    if (cudaGetDevice(&before) != cudaSuccess || cudaSetDevice(device_) != cudaSuccess) {
      cudaGetLastError();
      return [] { return true; };
    }
    cudaEvent_t made = nullptr;
    cudaError_t error = cudaEventCreateWithFlags(&made, cudaEventDisableTiming);
    if (error == cudaSuccess) error = cudaEventRecord(made, static_cast<cudaStream_t>(stream));
    if (error != cudaSuccess) {  // nothing can be running on a device that cannot be used
      cudaGetLastError();
      if (made != nullptr) cudaEventDestroy(made);
      cudaSetDevice(before);
      return [] { return true; };
    }
    cudaSetDevice(before);
    const std::shared_ptr<CUevent_st> event(made, [](cudaEvent_t e) { cudaEventDestroy(e); });
    return [event] { return cudaEventQuery(event.get()) != cudaErrorNotReady; };
  }

 private:
  int device_ = 0;  // of the thread that locked memory
};

}  // namespace

std::shared_ptr<Device> make_cuda_device() { return std::make_shared<CudaDevice>(); }

}  // namespace shardmill::internal
