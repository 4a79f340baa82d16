// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill {

/// Element types that every format carries. Values are part of index files: append only.
enum class DType : std::uint8_t {
  kUInt8,
  kInt8,
  kUInt16,
  kInt16,
  kUInt32,
  kInt32,
  kUInt64,
  kInt64,
  kFloat16,
  kFloat32,
  kFloat64,
  kBool,
  kComplex64,
  kComplex128,
};

/// Returns the size of one element in bytes.
std::size_t dtype_size(DType dtype) noexcept;
/// Returns NumPy's name, e.g. "uint8", "float32".
std::string_view dtype_name(DType dtype) noexcept;
/// Returns the dtype with NumPy's name `name`, or nothing.
std::optional<DType> dtype_from_name(std::string_view name) noexcept;

/// Element type and shape of an array, C order. An empty shape is a scalar.
struct ArrayType {
  DType dtype = DType::kUInt8;
  std::vector<std::uint64_t> shape = {};

  std::uint64_t elements() const noexcept;  ///< Product of the shape; saturates at 2^64 - 1.
  std::uint64_t bytes() const noexcept;     ///< elements() * dtype_size(); saturates.
  bool operator==(const ArrayType&) const = default;
};

/// The parsed header of an .npy file and where its elements lie.
struct NpyView {
  ArrayType type;
  bool fortran_order = false;
  bool big_endian = false;
  std::span<const std::byte> data;  ///< The elements as stored.

  bool canonical() const noexcept { return !fortran_order && !big_endian; }
};

/// Parses the bytes of an .npy file (format versions 1 to 3). Throws kDataLoss for damage and
/// kUnsupported for object or structured arrays; `path` and `place` name the source.
NpyView parse_npy(std::span<const std::byte> bytes, const std::string& path,
                  const std::string& place);

/// Returns an .npy header (version 1.0, little-endian, C order, padded so that the elements
/// start at a multiple of 64 bytes), byte-identical to what NumPy's `save` writes.
std::string npy_header(const ArrayType& type);

/// Writes the elements of `npy` in C order, little-endian, to `out`, which has npy.data.size()
/// bytes. This is the canonical form that digests are made of.
void canonical_elements(const NpyView& npy, std::byte* out);

}  // namespace shardmill
