// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "formats/internal/input_file.h"

namespace shardmill::hdf5 {

/// Where a value of variable length lies: a row of such a dataset, as stored.
struct HeapReference {
  std::uint32_t size = 0;     ///< In elements; here bytes.
  std::uint64_t address = 0;  ///< Of the collection that holds it, relative to the file's base.
  std::uint32_t number = 0;   ///< Its number in the collection.
};

inline constexpr std::uint64_t kHeapHeaderBytes = 32;  ///< Of a collection, and of its first value.

/// Parses the kReferenceBytes bytes of a row.
HeapReference parse_reference(Bytes row) noexcept;

/// Lends a value of the global heap (of elements of one byte) until file.release(). Every step is
/// checked. Returns null, or what is wrong with the heap there.
const char* heap_value(internal::InputFile& file, std::uint64_t base,
                       const HeapReference& reference, Bytes& value);

}  // namespace shardmill::hdf5
