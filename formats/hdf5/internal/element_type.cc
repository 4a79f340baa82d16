// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/element_type.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

namespace shardmill::hdf5 {

namespace {

constexpr int kMaxTypeDepth = 16;  // nested compounds deeper than this are named "…"

TypeHandle half_type() {
  TypeHandle type(H5Tcopy(H5T_IEEE_F32LE));
  H5Tset_fields(type.get(), 15, 10, 5, 0, 10);
  H5Tset_size(type.get(), 2);
  H5Tset_ebias(type.get(), 15);
  return type;
}

TypeHandle bool_type() {
  TypeHandle type(H5Tenum_create(H5T_STD_I8LE));
  for (const auto& [name, value] : {std::pair{"FALSE", std::int8_t{0}}, {"TRUE", std::int8_t{1}}}) {
    H5Tenum_insert(type.get(), name, &value);
  }
  return type;
}

TypeHandle complex_type(hid_t part) {
  const std::size_t size = H5Tget_size(part);
  TypeHandle type(H5Tcreate(H5T_COMPOUND, 2 * size));
  H5Tinsert(type.get(), "r", 0, part);
  H5Tinsert(type.get(), "i", size, part);
  return type;
}

struct LibraryString {
  explicit LibraryString(char* text) : text(text) {}
  ~LibraryString() { H5free_memory(text); }
  LibraryString(const LibraryString&) = delete;
  LibraryString& operator=(const LibraryString&) = delete;
  std::string str() const { return text != nullptr ? text : ""; }
  char* text;
};

std::string member_name(hid_t type, unsigned index) {
  return LibraryString(H5Tget_member_name(type, index)).str();
}

std::optional<Element> integer_element(hid_t type) {
  const std::size_t size = H5Tget_size(type);
  const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
  DType dtype;
  switch (size) {
    case 1:
      dtype = is_signed ? DType::kInt8 : DType::kUInt8;
      break;
    case 2:
      dtype = is_signed ? DType::kInt16 : DType::kUInt16;
      break;
    case 4:
      dtype = is_signed ? DType::kInt32 : DType::kUInt32;
      break;
    case 8:
      dtype = is_signed ? DType::kInt64 : DType::kUInt64;
      break;
    default:
      return std::nullopt;
  }
  const bool full = H5Tget_precision(type) == size * 8 && H5Tget_offset(type) == 0;
  return Element{dtype, full && (size == 1 || H5Tget_order(type) == H5T_ORDER_LE)};
}

std::optional<Element> float_element(hid_t type) {
  const TypeHandle half = half_type();
  const TypeHandle half_big(H5Tcopy(half.get()));
  H5Tset_order(half_big.get(), H5T_ORDER_BE);
  if (H5Tequal(type, half.get()) > 0) return Element{DType::kFloat16, true};
  if (H5Tequal(type, half_big.get()) > 0) return Element{DType::kFloat16, false};
  if (H5Tequal(type, H5T_IEEE_F32LE) > 0) return Element{DType::kFloat32, true};
  if (H5Tequal(type, H5T_IEEE_F32BE) > 0) return Element{DType::kFloat32, false};
  if (H5Tequal(type, H5T_IEEE_F64LE) > 0) return Element{DType::kFloat64, true};
  if (H5Tequal(type, H5T_IEEE_F64BE) > 0) return Element{DType::kFloat64, false};
  return std::nullopt;
}

std::optional<Element> complex_element(hid_t type) {
  if (H5Tget_nmembers(type) != 2 || member_name(type, 0) != "r" || member_name(type, 1) != "i") {
    return std::nullopt;
  }
  const TypeHandle part(H5Tget_member_type(type, 0));
  const TypeHandle other(H5Tget_member_type(type, 1));
  if (!part || H5Tequal(part.get(), other.get()) <= 0) return std::nullopt;
  if (H5Tget_class(part.get()) != H5T_FLOAT) return std::nullopt;
  const auto number = float_element(part.get());
  if (!number || number->dtype == DType::kFloat16) return std::nullopt;
  const std::size_t size = H5Tget_size(part.get());
  const bool packed = H5Tget_member_offset(type, 0) == 0 && H5Tget_member_offset(type, 1) == size &&
                      H5Tget_size(type) == 2 * size;
  return Element{number->dtype == DType::kFloat32 ? DType::kComplex64 : DType::kComplex128,
                 packed && number->exact};
}

std::string name_of(hid_t type, int depth);

std::string compound_name(hid_t type, int depth) {
  std::string text = "compound{";
  const int members = H5Tget_nmembers(type);
  for (int i = 0; i < members; ++i) {
    if (i > 0) text += ", ";
    const TypeHandle member(H5Tget_member_type(type, static_cast<unsigned>(i)));
    text += member_name(type, static_cast<unsigned>(i)) + ": " + name_of(member.get(), depth + 1);
  }
  return text + "}";
}

std::string array_name(hid_t type, int depth) {
  std::array<hsize_t, H5S_MAX_RANK> dims{};
  const int rank = H5Tget_array_dims2(type, dims.data());
  std::string text = "array[";
  for (int i = 0; i < rank; ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(dims[static_cast<std::size_t>(i)]);
  }
  const TypeHandle base(H5Tget_super(type));
  return text + "](" + name_of(base.get(), depth + 1) + ")";
}

std::string number_name(hid_t type, const char* fallback) {
  if (const auto element = element_of(type)) {
    const bool big = H5Tget_order(type) == H5T_ORDER_BE && H5Tget_size(type) > 1;
    if (!big) return std::string(dtype_name(element->dtype));
    const std::string header = npy_header({element->dtype, {}});
    const std::size_t at = header.find('<') + 1;  // `'descr': '<f4'`
    return ">" + header.substr(at, header.find('\'', at) - at);
  }
  return fallback + std::to_string(H5Tget_size(type) * 8);
}

std::string wrapped(const char* word, hid_t type, int depth) {
  const TypeHandle base(H5Tget_super(type));
  return std::string(word) + "(" + name_of(base.get(), depth + 1) + ")";
}

std::string name_of(hid_t type, int depth) {
  if (depth > kMaxTypeDepth) return "…";
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return number_name(type, "integer");
    case H5T_FLOAT:
      return number_name(type, "float");
    case H5T_STRING:
      if (H5Tis_variable_str(type) > 0) return "string";
      return "string(" + std::to_string(H5Tget_size(type)) + ")";
    case H5T_BITFIELD:
      return "bitfield" + std::to_string(H5Tget_size(type) * 8);
    case H5T_OPAQUE:
      return "opaque" + std::to_string(H5Tget_size(type));
    case H5T_COMPOUND:
      if (const auto element = complex_element(type)) {
        if (element->exact) return std::string(dtype_name(element->dtype));
      }
      return compound_name(type, depth);
    case H5T_REFERENCE:
      return "reference";
    case H5T_ENUM:
      if (element_of(type)) return "bool";
      return wrapped("enum", type, depth);
    case H5T_VLEN:
      return wrapped("vlen", type, depth);
    case H5T_ARRAY:
      return array_name(type, depth);
    case H5T_TIME:
      return "time" + std::to_string(H5Tget_size(type) * 8);
    default:
      return "unknown";
  }
}

}  // namespace

TypeHandle storage_type(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return TypeHandle(H5Tcopy(H5T_STD_U8LE));
    case DType::kInt8:
      return TypeHandle(H5Tcopy(H5T_STD_I8LE));
    case DType::kUInt16:
      return TypeHandle(H5Tcopy(H5T_STD_U16LE));
    case DType::kInt16:
      return TypeHandle(H5Tcopy(H5T_STD_I16LE));
    case DType::kUInt32:
      return TypeHandle(H5Tcopy(H5T_STD_U32LE));
    case DType::kInt32:
      return TypeHandle(H5Tcopy(H5T_STD_I32LE));
    case DType::kUInt64:
      return TypeHandle(H5Tcopy(H5T_STD_U64LE));
    case DType::kInt64:
      return TypeHandle(H5Tcopy(H5T_STD_I64LE));
    case DType::kFloat16:
      return half_type();
    case DType::kFloat32:
      return TypeHandle(H5Tcopy(H5T_IEEE_F32LE));
    case DType::kFloat64:
      return TypeHandle(H5Tcopy(H5T_IEEE_F64LE));
    case DType::kBool:
      return bool_type();
    case DType::kComplex64:
      return complex_type(H5T_IEEE_F32LE);
    case DType::kComplex128:
      return complex_type(H5T_IEEE_F64LE);
  }
  return {};
}

std::optional<Element> element_of(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return integer_element(type);
    case H5T_FLOAT:
      return float_element(type);
    case H5T_COMPOUND:
      return complex_element(type);
    case H5T_ENUM: {
      const TypeHandle boolean = bool_type();
      if (H5Tequal(type, boolean.get()) > 0) return Element{DType::kBool, true};
      return std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

bool is_byte_sequence(hid_t type) {
  if (H5Tget_class(type) != H5T_VLEN) return false;
  const TypeHandle base(H5Tget_super(type));
  return base && H5Tget_class(base.get()) == H5T_INTEGER && H5Tget_size(base.get()) == 1;
}

bool has_variable_parts(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_VLEN:
      return true;
    case H5T_STRING:
      return H5Tis_variable_str(type) > 0;
    case H5T_ARRAY:
      return has_variable_parts(TypeHandle(H5Tget_super(type)).get());
    case H5T_COMPOUND: {
      const auto members = static_cast<unsigned>(std::max(0, H5Tget_nmembers(type)));
      for (unsigned i = 0; i < members; ++i) {
        if (has_variable_parts(TypeHandle(H5Tget_member_type(type, i)).get())) return true;
      }
      return false;
    }
    default:
      return false;
  }
}

bool is_sound(hid_t type) {
  const std::size_t size = H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
    case H5T_BITFIELD:
    case H5T_FLOAT:
      return H5Tget_precision(type) + static_cast<std::size_t>(std::max(0, H5Tget_offset(type))) <=
             8 * size;
    case H5T_VLEN:
      return is_sound(TypeHandle(H5Tget_super(type)).get());
    case H5T_ENUM:
    case H5T_ARRAY: {
      const TypeHandle base(H5Tget_super(type));
      hsize_t dims[H5S_MAX_RANK];
      std::uint64_t bytes = H5Tget_size(base.get());
      const int rank = H5Tget_class(type) == H5T_ARRAY ? H5Tget_array_dims2(type, dims) : 0;
      for (int d = 0; d < rank; ++d) {
        if (__builtin_mul_overflow(bytes, dims[d], &bytes)) return false;
      }
      return rank >= 0 && bytes == size && is_sound(base.get());
    }
    case H5T_COMPOUND: {
      const int members = H5Tget_nmembers(type);
      for (unsigned i = 0; i < static_cast<unsigned>(std::max(0, members)); ++i) {
        const TypeHandle member(H5Tget_member_type(type, i));
        const std::size_t at = H5Tget_member_offset(type, i);
        const std::size_t bytes = H5Tget_size(member.get());
        if (at > size || bytes > size - at || !is_sound(member.get())) return false;
      }
      return members > 0;
    }
    default:
      return size > 0;
  }
}

std::string type_name(hid_t type) { return name_of(type, 0); }

}  // namespace shardmill::hdf5
