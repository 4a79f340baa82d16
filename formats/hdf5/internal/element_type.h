// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/array.h>

#include <optional>
#include <string>

#include "formats/hdf5/internal/hdf5_handles.h"

namespace shardmill::hdf5 {

/// Returns the HDF5 type in which h5py stores `dtype`, little-endian: IEEE half for float16, an
/// enumeration FALSE, TRUE for bool, a compound {r, i} for complex numbers.
TypeHandle storage_type(DType dtype);

/// How an HDF5 type maps to ours.
struct Element {
  DType dtype = DType::kUInt8;
  bool exact = false;  ///< The stored bytes are ours; otherwise the library must convert.
};

/// Returns the element that `type` stands for; nothing if it is none of ours (strings, compounds,
/// references, floats of other widths …).
std::optional<Element> element_of(hid_t type);

/// True for a variable-length sequence of bytes (uint8 or int8), as h5py stores encoded images.
bool is_byte_sequence(hid_t type);

/// True if values of the type, or parts of them, lie elsewhere: sequences, strings of variable
/// length.
bool has_variable_parts(hid_t type);

/// True if all parts of a type lie inside it: the library converts what damaged ones say and reads
/// other memory.
bool is_sound(hid_t type);

/// Names a type as listings show it: NumPy's name for numbers (big-endian: `>i4`), else a
/// description such as `string(7)`, `vlen(int32)`, `compound{a: int32, b: float64}`.
std::string type_name(hid_t type);

}  // namespace shardmill::hdf5
