// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>
#include <shardmill/loader/outputs.h>

#include <algorithm>

#include "loader/internal/control.h"

namespace shardmill {

namespace {

[[noreturn]] void refuse(const std::string& option, const std::string& value,
                         const std::string& rule) {
  throw Error(ErrorCode::kInvalidArgument, {}, "loader option " + option,
              "is " + value + ", must be " + rule);
}

}  // namespace

void check_outputs(const std::vector<Output>& outputs) {
  std::size_t ragged = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Output& output = outputs[i];
    const std::string option = "outputs[" + std::to_string(i) + "]";
    if (output.name.empty()) refuse(option + ".name", "empty", "a name");
    const auto same = [&](const Output& other) { return other.name == output.name; };
    if (std::any_of(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(i), same)) {
      refuse(option + ".name", "\"" + output.name + "\" a second time", "different in each output");
    }
    if (output.kind == OutputKind::kComputed && !output.compute) {
      refuse(option + ".compute", "empty", "a function");
    }
    if (output.kind == OutputKind::kImage &&
        (output.row.shape.size() != 3 || output.row.elements() == 0 ||
         output.row.shape[0] > 65'535 || output.row.shape[1] > 65'535)) {
      refuse(option, "an image without a size", "made by image_output with width, height > 0");
    }
    if ((output.kind == OutputKind::kClass || output.kind == OutputKind::kArray) &&
        output.field.empty()) {
      refuse(option + ".field", "empty", "the name of a field");
    }
    if (output.kind == OutputKind::kBytes && ++ragged > internal::kMaxRagged) {
      refuse("outputs", "more than " + std::to_string(internal::kMaxRagged) + " of stored bytes",
             "fewer");
    }
  }
}

Output image_output(std::string name, std::uint32_t width, std::uint32_t height,
                    std::string field) {
  return {std::move(name),
          OutputKind::kImage,
          std::move(field),
          {DType::kUInt8, {height, width, 3}},
          {}};
}

Output class_output(std::string name, std::string field) {
  return {std::move(name), OutputKind::kClass, std::move(field), {DType::kInt64, {}}, {}};
}

Output array_output(std::string name, std::string field) {
  return {std::move(name), OutputKind::kArray, std::move(field), {}, {}};
}

Output bytes_output(std::string name, std::string field) {
  return {std::move(name), OutputKind::kBytes, std::move(field), {}, {}};
}

Output computed_output(std::string name, ArrayType row, RowFunction compute) {
  return {std::move(name), OutputKind::kComputed, {}, std::move(row), std::move(compute)};
}

}  // namespace shardmill
