// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>
#include <shardmill/loader/torch/tensors.h>

#include <memory>
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

// The deleter's capture is the reference that keeps the slot lent. The lease is taken as const,
// but the memory is the consumer's to write into (Batch says so).
at::Tensor borrow(const Batch& batch, void* data, at::IntArrayRef shape, at::ScalarType type) {
  auto release = [lease = batch.lease()](void*) {};
  return torch::from_blob(data, shape, std::move(release), at::TensorOptions(type));
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
  auto* offsets = const_cast<std::int64_t*>(output.offsets.data());
  return {
      borrow(batch, output.data.data(), {static_cast<std::int64_t>(output.data.size())}, at::kByte),
      borrow(batch, offsets, {static_cast<std::int64_t>(output.offsets.size())}, at::kLong)};
}

std::map<std::string, at::Tensor> to_tensors(const Batch& batch) {
  std::map<std::string, at::Tensor> tensors;
  for (const BatchOutput& output : batch.outputs()) {
    if (!output.ragged) tensors.emplace(output.name, to_tensor(batch, output.name));
  }
  return tensors;
}

}  // namespace shardmill
