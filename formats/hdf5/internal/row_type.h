// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/array.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/hdf5/internal/hdf5_handles.h"

namespace shardmill::hdf5 {

/// What an element of a dataset, or a member of a compound, is to us.
enum class RowKind : std::uint64_t {
  kNone,            ///< Nothing that a field could hold: references, times …
  kNumbers,         ///< One number or, of array types, several.
  kFixedText,       ///< A string of fixed length, or opaque bytes.
  kText,            ///< A string of variable length.
  kBytes,           ///< A variable number of bytes (uint8 or int8), as h5py stores images.
  kNumberSequence,  ///< A variable number of other numbers.
};

/// What fills up a string of fixed length. Values are part of index files.
enum class Padding : std::uint64_t { kNone, kZeroEnds, kZeros, kSpaces };

/// The value as seen through HDF5's type.
struct RowType {
  RowKind kind = RowKind::kNone;
  DType dtype = DType::kUInt8;            ///< kNumbers, kNumberSequence.
  std::vector<std::uint64_t> inner = {};  ///< Shape of an array type.
  bool exact = false;                     ///< The stored bytes are ours, as they lie there.
  std::uint64_t bytes = 0;                ///< Size of the element; 0 where it varies.
  Padding padding = Padding::kNone;       ///< kFixedText.
  TypeHandle memory = {};                 ///< What the library is to convert it to.

  bool varies() const noexcept { return kind >= RowKind::kText; }
};

/// Returns what `type` is to us. REQUIRES: a Session.
RowType row_type_of(hid_t type);

/// The members of a compound, by name; empty if it is none (complex numbers are numbers).
std::vector<std::string> member_names(hid_t type);
/// Returns the type of a compound's member; an invalid handle if there is none.
TypeHandle member_type(hid_t type, const std::string& name);
/// Returns a compound in memory that has only the member at `path` (outermost first), of `type`.
TypeHandle member_in_memory(std::span<const std::string> path, const TypeHandle& type);

/// Takes the padding from a string of fixed length.
std::string_view without_padding(std::string_view text, Padding padding) noexcept;

}  // namespace shardmill::hdf5
