// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>
#include <shardmill/loader/batch.h>

#include <utility>

#include "loader/internal/ring.h"

namespace shardmill {

const BatchOutput& Batch::operator[](std::string_view name) const {
  std::string names;
  for (const BatchOutput& output : outputs_) {
    if (output.name == name) return output;
    names += (names.empty() ? "" : ", ") + output.name;
  }
  throw Error(ErrorCode::kNotFound, {}, {}, "the batch has no output \"" + escape(name) + "\"",
              "its outputs are: " + names);
}

std::vector<std::string_view> Batch::keys() const {
  std::vector<std::string_view> keys;
  if (!lease_) return keys;
  const internal::SlotMemory memory = lease_->memory();
  for (std::size_t row = 0; row < size(); ++row) keys.push_back(memory.key(row));
  return keys;
}

std::shared_ptr<const void> Batch::lease() const noexcept { return lease_; }

void Batch::record_stream(void* stream) const {
  if (!lease_) return;
  if (internal::Device* const device = lease_->device()) lease_->hold_until(device->mark(stream));
}

namespace internal {

namespace {

SlotLease& slot_lease(const std::shared_ptr<const void>& lease) {
  // Batch hides what it lends, but not from the loader's own parts.
  return *static_cast<SlotLease*>(const_cast<void*>(lease.get()));
}

}  // namespace

void hold_until(const std::shared_ptr<const void>& lease, std::function<bool()> done) {
  slot_lease(lease).hold_until(std::move(done));
}

bool is_pinned(const std::shared_ptr<const void>& lease) noexcept {
  return slot_lease(lease).device() != nullptr;
}

}  // namespace internal
}  // namespace shardmill
