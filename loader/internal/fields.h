// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/array.h>
#include <shardmill/formats/error.h>
#include <shardmill/formats/sample.h>
#include <shardmill/loader/outputs.h>

#include <string>

namespace shardmill::internal {

// Fields as outputs want them. All throw Error without path and place.

/// Returns the field that `output` is made of, or null if the sample lacks it.
const FieldView* find_field(const SampleView& sample, const Output& output) noexcept;
/// Returns the error for a sample without that field; it lists those that there are.
Error missing_field(const SampleView& sample, const Output& output);

/// True for .npy bytes and native arrays.
bool is_array(const FieldView& field) noexcept;
/// Views an .npy or native array.
NpyView array_of(const FieldView& field);
/// Views integers: an array of one extent, or else the stored bytes as elements of `raw`.
NpyView sequence_of(const FieldView& field, DType raw);

/// Returns e.g. `float32 (2, 3)`.
std::string type_text(const ArrayType& type);
/// Throws the error for a value of type `found` that does not fit into the rows of `output`.
[[noreturn]] void refuse_type(const Output& output, const ArrayType& found);

}  // namespace shardmill::internal
