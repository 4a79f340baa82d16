// SPDX-License-Identifier: Apache-2.0
#include "loader/torch/internal/copy_engine.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>

namespace shardmill::internal {

namespace {

// The engine for any accelerator that LibTorch knows, through its device-independent interface:
// the headers of c10/cuda are not in every package.
class StreamEngine : public CopyEngine {
 public:
  explicit StreamEngine(const at::Device& device)
      : guard_(device.type()),
        device_(device.has_index() ? device : guard_.getDevice()),
        stream_(guard_.getStreamFromGlobalPool(device_)) {}

  at::Tensor copy(const at::Tensor& host) override {
    const c10::Stream before = guard_.exchangeStream(stream_);
    at::Tensor copy = at::empty(host.sizes(), host.options().device(device_));
    copy.copy_(host, /*non_blocking=*/true);
    guard_.exchangeStream(before);
    return copy;
  }

  std::function<bool()> mark() override {
    event_ = std::make_shared<c10::Event>(device_.type());
    event_->record(stream_);
    return [event = event_] { return event->query(); };
  }

  void hand_over(const std::vector<at::Tensor>& copies) override {
    const c10::Stream current = guard_.getStream(device_);
    if (event_) event_->block(current);
    for (const at::Tensor& copy : copies) copy.record_stream(current);
  }

 private:
  c10::impl::VirtualGuardImpl guard_;
  at::Device device_;
  c10::Stream stream_;
  std::shared_ptr<c10::Event> event_;
};

class HostEngine : public CopyEngine {
 public:
  at::Tensor copy(const at::Tensor& host) override { return host; }
  std::function<bool()> mark() override {
    return [] { return true; };
  }
  void hand_over(const std::vector<at::Tensor>&) override {}
};

}  // namespace

std::unique_ptr<CopyEngine> make_copy_engine(const at::Device& device) {
  if (device.is_cpu()) return std::make_unique<HostEngine>();
  return std::make_unique<StreamEngine>(device);
}

}  // namespace shardmill::internal
