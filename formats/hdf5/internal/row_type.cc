// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/row_type.h"

#include <array>

#include "formats/hdf5/internal/element_type.h"

namespace shardmill::hdf5 {

namespace {

constexpr std::uint64_t kMaxElementBytes = 1 << 30;

RowType numbers(DType dtype, bool exact, TypeHandle memory) {
  RowType out;
  out.kind = RowKind::kNumbers;
  out.dtype = dtype;
  out.exact = exact;
  out.bytes = dtype_size(dtype);
  out.memory = std::move(memory);
  return out;
}

// Enumerations are their numbers. The library converts them only into their own kind.
RowType enumeration(hid_t type) {
  const TypeHandle base(H5Tget_super(type));
  const auto element = element_of(base.get());
  if (!element) return {};
  return numbers(element->dtype, element->exact,
                 TypeHandle(H5Tget_native_type(type, H5T_DIR_ASCEND)));
}

RowType bit_field(hid_t type) {
  const std::size_t size = H5Tget_size(type);
  const DType dtype = size == 1   ? DType::kUInt8
                      : size == 2 ? DType::kUInt16
                      : size == 4 ? DType::kUInt32
                                  : DType::kUInt64;
  if (dtype_size(dtype) != size) return {};
  const bool full = H5Tget_precision(type) == size * 8 && H5Tget_offset(type) == 0;
  const bool little = size == 1 || H5Tget_order(type) == H5T_ORDER_LE;
  TypeHandle memory(H5Tcopy(type));
  H5Tset_order(memory.get(), H5T_ORDER_LE);
  return numbers(dtype, full && little, std::move(memory));
}

RowType text(hid_t type) {
  RowType out;
  out.memory = TypeHandle(H5Tcopy(type));
  if (H5Tis_variable_str(type) > 0) {
    out.kind = RowKind::kText;
    return out;
  }
  out.kind = RowKind::kFixedText;
  out.exact = true;
  out.bytes = H5Tget_size(type);
  const H5T_str_t padding = H5Tget_strpad(type);
  out.padding = padding == H5T_STR_NULLTERM   ? Padding::kZeroEnds
                : padding == H5T_STR_SPACEPAD ? Padding::kSpaces
                                              : Padding::kZeros;
  return out;
}

RowType opaque(hid_t type) {
  RowType out;
  out.kind = RowKind::kFixedText;
  out.exact = true;
  out.bytes = H5Tget_size(type);
  out.memory = TypeHandle(H5Tcopy(type));
  return out;
}

RowType sequence(hid_t type) {
  const TypeHandle base(H5Tget_super(type));
  RowType out;
  if (is_byte_sequence(type)) {
    out.kind = RowKind::kBytes;
    out.memory = TypeHandle(H5Tvlen_create(base.get()));
    return out;
  }
  const auto element = element_of(base.get());
  if (!element) return {};
  out.kind = RowKind::kNumberSequence;
  out.dtype = element->dtype;
  const TypeHandle memory = storage_type(element->dtype);
  out.memory = TypeHandle(H5Tvlen_create(memory.get()));
  return out;
}

RowType array(hid_t type) {
  const TypeHandle base(H5Tget_super(type));
  if (!base || H5Tget_class(base.get()) == H5T_ARRAY) return {};
  RowType out = row_type_of(base.get());
  std::array<hsize_t, H5S_MAX_RANK> dims{};
  const int rank = H5Tget_array_dims2(type, dims.data());
  if (out.kind != RowKind::kNumbers || rank < 1) return {};
  out.inner.assign(dims.begin(), dims.begin() + rank);
  for (const std::uint64_t extent : out.inner) {
    if (__builtin_mul_overflow(out.bytes, extent, &out.bytes)) return {};
  }
  out.memory =
      TypeHandle(H5Tarray_create2(out.memory.get(), static_cast<unsigned>(rank), dims.data()));
  return out;
}

RowType any_type(hid_t type) {
  if (const auto element = element_of(type)) {
    return numbers(element->dtype, element->exact, storage_type(element->dtype));
  }
  switch (H5Tget_class(type)) {
    case H5T_ENUM:
      return enumeration(type);
    case H5T_BITFIELD:
      return bit_field(type);
    case H5T_STRING:
      return text(type);
    case H5T_OPAQUE:
      return opaque(type);
    case H5T_VLEN:
      return sequence(type);
    case H5T_ARRAY:
      return array(type);
    default:
      return {};
  }
}

}  // namespace

RowType row_type_of(hid_t type) {
  RowType out = any_type(type);
  if (!out.memory || out.bytes > kMaxElementBytes || (!out.varies() && out.bytes == 0)) return {};
  return out;
}

std::vector<std::string> member_names(hid_t type) {
  std::vector<std::string> names;
  if (H5Tget_class(type) != H5T_COMPOUND || element_of(type)) return names;
  const int count = H5Tget_nmembers(type);
  for (int i = 0; i < count; ++i) {
    char* name = H5Tget_member_name(type, static_cast<unsigned>(i));
    if (name == nullptr) continue;
    names.emplace_back(name);
    H5free_memory(name);
  }
  return names;
}

TypeHandle member_type(hid_t type, const std::string& name) {
  const int index =
      H5Tget_class(type) == H5T_COMPOUND ? H5Tget_member_index(type, name.c_str()) : -1;
  if (index < 0) return {};
  return TypeHandle(H5Tget_member_type(type, static_cast<unsigned>(index)));
}

TypeHandle member_in_memory(std::span<const std::string> path, const TypeHandle& type) {
  TypeHandle out(H5Tcopy(type.get()));
  for (std::size_t i = path.size(); i-- > 0;) {
    TypeHandle outer(H5Tcreate(H5T_COMPOUND, H5Tget_size(out.get())));
    if (!outer || H5Tinsert(outer.get(), path[i].c_str(), 0, out.get()) < 0) return {};
    out = std::move(outer);
  }
  return out;
}

std::string_view without_padding(std::string_view text, Padding padding) noexcept {
  if (padding == Padding::kNone) return text;
  if (padding == Padding::kZeroEnds) text = text.substr(0, text.find('\0'));
  const char fill = padding == Padding::kSpaces ? ' ' : '\0';
  const std::size_t last = text.find_last_not_of(fill);
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

}  // namespace shardmill::hdf5
