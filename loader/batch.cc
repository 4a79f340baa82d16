// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>
#include <shardmill/loader/batch.h>

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

}  // namespace shardmill
