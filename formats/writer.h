// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>

#include <cstdint>
#include <string>
#include <vector>

namespace shardmill {

/// How the values of one field are stored where the format has a choice (HDF5).
enum class FieldKind : std::uint8_t {
  kBytes,  ///< Byte strings of any length.
  kClass,  ///< Decimal class numbers, stored as int64 in HDF5.
  kArray,  ///< Arrays of one dtype and shape (`FieldSpec::array`), stored as numbers in HDF5.
};

/// Returns "bytes", "class" or "array", as in manifests.
std::string_view field_kind_name(FieldKind kind) noexcept;

/// One field of a dataset.
struct FieldSpec {
  std::string name;
  FieldKind kind = FieldKind::kBytes;
  ArrayType array = {};   ///< For kArray.
  bool optional = false;  ///< Some samples lack it.
  bool operator==(const FieldSpec&) const = default;
};

/// What is known about a shard before it is written.
struct WriteOptions {
  /// All fields that samples may have, sorted by name. Formats with columns (HDF5) need it and
  /// refuse a sample that does not fit; the others ignore it.
  std::vector<FieldSpec> fields = {};
  /// Number of samples that will be written, if known; 0 otherwise. HDF5 stores arrays
  /// contiguously when it is known.
  std::uint64_t samples = 0;
  /// HDF5: byte strings as rows of variable-length uint8, instead of data and offsets.
  bool vlen = false;
};

/// Appends samples to one shard. One thread.
///
/// The shard is written under a temporary name in the same directory; nothing appears under its
/// final name until close() has returned. Equal samples and options give equal bytes.
class Writer {
 public:
  virtual ~Writer() = default;  ///< Discards a shard that was not closed.

  /// Appends a sample. Fields may come in any order; array fields are stored as .npy where the
  /// format has no arrays of its own. What the format cannot carry is kUnsupported or
  /// kInvalidArgument naming sample and field; the shard can then still be continued without it.
  virtual void write(const SampleView& sample) = 0;

  /// Completes the shard: flush, fsync, rename to the final name, fsync of the directory.
  /// Throws kResourceExhausted on a full disk. REQUIRES: called once.
  virtual void close() = 0;
};

}  // namespace shardmill
