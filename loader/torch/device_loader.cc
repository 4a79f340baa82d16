// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>
#include <shardmill/loader/torch/device_loader.h>
#include <shardmill/loader/torch/tensors.h>

#include <utility>

#include "loader/torch/internal/copy_engine.h"

namespace shardmill {

struct DeviceLoader::Ahead {
  DeviceBatch batch;
  std::vector<at::Tensor> copies;
};

const at::Tensor& DeviceBatch::operator[](const std::string& name) const {
  const auto found = tensors.find(name);
  if (found != tensors.end()) return found->second;
  std::string names;
  for (const auto& [other, tensor] : tensors) names += (names.empty() ? "" : ", ") + other;
  throw Error(ErrorCode::kNotFound, {}, {}, "the batch has no tensor \"" + escape(name) + "\"",
              "its tensors are: " + names);
}

DeviceLoader::DeviceLoader(Loader& loader, const at::Device& device)
    : DeviceLoader(loader, internal::make_copy_engine(device)) {}

DeviceLoader::DeviceLoader(Loader& loader, std::unique_ptr<internal::CopyEngine> engine)
    : loader_(loader), engine_(std::move(engine)) {}

DeviceLoader::~DeviceLoader() = default;

void DeviceLoader::start_epoch(std::uint64_t epoch) {
  ahead_.reset();
  loader_.start_epoch(epoch);
}

// Takes the loader's next batch and begins to copy it. False at the epoch's end.
bool DeviceLoader::begin_copy() {
  std::string state = loader_.state();
  Batch host;
  if (!loader_.next(host)) return false;
  state_ = std::move(state);
  ahead_ = std::make_unique<Ahead>();
  DeviceBatch& batch = ahead_->batch;
  batch.epoch = host.epoch();
  batch.index = host.index();
  batch.samples.assign(host.samples().begin(), host.samples().end());
  batch.positions.assign(host.positions().begin(), host.positions().end());
  for (const std::string_view key : host.keys()) batch.keys.emplace_back(key);
  for (const auto& [name, tensor] : to_tensors(host)) {
    ahead_->copies.push_back(engine_->copy(tensor));
    batch.tensors.emplace(name, ahead_->copies.back());
  }
  internal::hold_until(host.lease(), engine_->mark());
  return true;
}

bool DeviceLoader::next(DeviceBatch& batch) {
  batch = DeviceBatch();
  if (!ahead_ && !begin_copy()) return false;
  const std::unique_ptr<Ahead> current = std::move(ahead_);
  engine_->hand_over(current->copies);
  batch = std::move(current->batch);
  // The consumer is not kept waiting for a batch that is still being made.
  if (loader_.ready()) begin_copy();
  return true;
}

std::string DeviceLoader::state() const { return ahead_ ? state_ : loader_.state(); }

}  // namespace shardmill
