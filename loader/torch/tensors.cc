// SPDX-License-Identifier: Apache-2.0
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <shardmill/formats/error.h>
#include <shardmill/loader/torch/tensors.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardmill {

namespace {

at::ScalarType scalar_type(DType dtype, std::string_view name) {
  switch (dtype) {
    case DType::kUInt8:
      return at::kByte;
    case DType::kInt8:
      return at::kChar;
    case DType::kInt16:
      return at::kShort;
    case DType::kInt32:
      return at::kInt;
    case DType::kInt64:
      return at::kLong;
    case DType::kFloat16:
      return at::kHalf;
    case DType::kFloat32:
      return at::kFloat;
    case DType::kFloat64:
      return at::kDouble;
    case DType::kBool:
      return at::kBool;
    case DType::kComplex64:
      return at::kComplexFloat;
    case DType::kComplex128:
      return at::kComplexDouble;
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64:
      break;
  }
  throw Error(ErrorCode::kUnsupported, {}, "output \"" + std::string(name) + "\"",
              "LibTorch has no tensors of " + std::string(dtype_name(dtype)),
              "use a computed output that converts to a signed or wider type");
}

// Holds a page-locked slot until the work that the current stream was given so far has ended.
void hold_for_current_stream(const std::shared_ptr<const void>& lease) {
  constexpr at::DeviceType kDevice = at::kCUDA;
  if (!internal::is_pinned(lease) || !c10::impl::hasDeviceGuardImpl(kDevice)) return;
  const c10::impl::VirtualGuardImpl guard(kDevice);
  const auto event = std::make_shared<c10::Event>(kDevice);
  event->record(guard.getStream(guard.getDevice()));
  internal::hold_until(lease, [event] { return event->query(); });
}

// The deleter's capture is the reference that keeps the slot lent. The lease is taken as const,
// but the memory is the consumer's to write into (Batch says so).
at::Tensor borrow(const Batch& batch, const void* data, at::IntArrayRef shape,
                  at::ScalarType type) {
  auto release = [lease = batch.lease()](void*) { hold_for_current_stream(lease); };
  return torch::from_blob(const_cast<void*>(data), shape, std::move(release),
                          at::TensorOptions(type));
}

at::Tensor borrow_numbers(const Batch& batch, std::span<const std::int64_t> numbers) {
  return borrow(batch, numbers.data(), {static_cast<std::int64_t>(numbers.size())}, at::kLong);
}

const BatchOutput& checked(const Batch& batch, std::string_view name, bool ragged) {
  const BatchOutput& output = batch[name];
  if (output.ragged == ragged) return output;
  throw Error(ErrorCode::kInvalidArgument, {}, "output \"" + std::string(name) + "\"",
              ragged ? "its rows have one size" : "its values have different lengths",
              ragged ? "call to_tensor" : "call to_ragged_tensor");
}

}  // namespace

at::Tensor to_tensor(const Batch& batch, std::string_view name) {
  const BatchOutput& output = checked(batch, name, false);
  std::vector<std::int64_t> shape = {static_cast<std::int64_t>(batch.size())};
  for (const std::uint64_t extent : output.row.shape) {
    shape.push_back(static_cast<std::int64_t>(extent));
  }
  return borrow(batch, output.data.data(), shape, scalar_type(output.row.dtype, name));
}

RaggedTensor to_ragged_tensor(const Batch& batch, std::string_view name) {
  const BatchOutput& output = checked(batch, name, true);
  RaggedTensor tensors;
  const std::size_t elements = output.data.size() / dtype_size(output.row.dtype);
  tensors.values = borrow(batch, output.data.data(), {static_cast<std::int64_t>(elements)},
                          scalar_type(output.row.dtype, name));
  tensors.offsets = borrow_numbers(batch, output.offsets);
  if (!output.lengths.empty()) tensors.lengths = borrow_numbers(batch, output.lengths);
  return tensors;
}

std::map<std::string, at::Tensor> to_tensors(const Batch& batch) {
  std::map<std::string, at::Tensor> tensors;
  const auto rows = static_cast<std::int64_t>(batch.size());
  for (const BatchOutput& output : batch.outputs()) {
    const std::string& name = output.name;
    if (output.ragged) {
      const RaggedTensor ragged = to_ragged_tensor(batch, name);
      tensors.emplace(name + ".values", ragged.values);
      tensors.emplace(name + ".offsets", ragged.offsets);
      if (ragged.lengths.defined()) tensors.emplace(name + ".lengths", ragged.lengths);
    } else {
      tensors.emplace(name, to_tensor(batch, name));
    }
    if (!output.sizes.empty()) {
      tensors.emplace(name + ".sizes", borrow_numbers(batch, output.sizes).view({rows, -1}));
    }
    if (!output.present.empty()) {
      tensors.emplace(name + ".present", borrow(batch, output.present.data(), {rows}, at::kBool));
    }
  }
  const std::span<const std::uint8_t> valid = batch.valid();
  if (std::find(valid.begin(), valid.end(), 0) != valid.end()) {
    // The batch's own: few bytes, and not in the slot.
    tensors.emplace(
        "valid",
        torch::from_blob(const_cast<std::uint8_t*>(valid.data()), {rows}, at::kBool).clone());
  }
  return tensors;
}

}  // namespace shardmill
