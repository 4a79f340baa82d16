// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/array.h>
#include <shardmill/formats/error.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace shardmill {

namespace {

struct DTypeRow {
  std::string_view name;
  std::string_view npy;  // NumPy's descr without the byte order
  std::size_t size;
};

constexpr std::array<DTypeRow, 14> kDTypes = {{{"uint8", "u1", 1},
                                               {"int8", "i1", 1},
                                               {"uint16", "u2", 2},
                                               {"int16", "i2", 2},
                                               {"uint32", "u4", 4},
                                               {"int32", "i4", 4},
                                               {"uint64", "u8", 8},
                                               {"int64", "i8", 8},
                                               {"float16", "f2", 2},
                                               {"float32", "f4", 4},
                                               {"float64", "f8", 8},
                                               {"bool", "b1", 1},
                                               {"complex64", "c8", 8},
                                               {"complex128", "c16", 16}}};

constexpr std::string_view kNpyMagic = "\x93NUMPY";

const DTypeRow& row(DType dtype) noexcept { return kDTypes[static_cast<std::size_t>(dtype)]; }

std::uint64_t saturating_multiply(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::uint64_t>::max()
                                                : product;
}

// Reads the Python dictionary literal of an .npy header: three known keys, nothing else.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& path, const std::string& place)
      : text_(text), path_(path), place_(place) {}

  NpyView parse() {
    NpyView npy;
    bool have_descr = false;
    bool have_order = false;
    bool have_shape = false;
    expect('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") {
        descr(npy);
        have_descr = true;
      } else if (key == "fortran_order") {
        npy.fortran_order = boolean();
        have_order = true;
      } else if (key == "shape") {
        shape(npy);
        have_shape = true;
      } else {
        fail("unknown key in the header");
      }
      take(',');
    }
    if (!have_descr || !have_order || !have_shape) fail("incomplete header");
    return npy;
  }

 private:
  [[noreturn]] void fail(const std::string& cause) const {
    throw Error(ErrorCode::kDataLoss, path_, place_, "damaged npy array: " + cause);
  }
  void skip_space() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
  }
  bool take(char c) {
    skip_space();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("expected '") + c + "' in the header");
  }
  std::string_view quoted() {
    skip_space();
    const char quote = text_.empty() ? '\0' : text_[0];
    if (quote != '\'' && quote != '"') fail("expected a string in the header");
    const std::size_t end = text_.find(quote, 1);
    if (end == std::string_view::npos) fail("unterminated string in the header");
    const std::string_view value = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return value;
  }
  void descr(NpyView& npy) {
    skip_space();
    const auto unsupported = [this](std::string_view what) {
      throw Error(ErrorCode::kUnsupported, path_, place_,
                  "npy array of type " + std::string(what) + " is not supported",
                  "store numbers (no object, string or structured arrays)");
    };
    if (!text_.empty() && text_[0] == '[') unsupported("'structured'");
    const std::string_view type = quoted();
    if (type.size() < 2) fail("unknown element type");
    const char order = type[0];
    const std::string_view name =
        order == '<' || order == '>' || order == '|' || order == '=' ? type.substr(1) : type;
    for (std::size_t i = 0; i < kDTypes.size(); ++i) {
      if (kDTypes[i].npy == name) {
        npy.type.dtype = static_cast<DType>(i);
        npy.big_endian = order == '>' && kDTypes[i].size > 1;
        return;
      }
    }
    unsupported("'" + escape(type) + "'");
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair{"True", true}, std::pair{"False", false}}) {
      if (text_.starts_with(word)) {
        text_.remove_prefix(std::strlen(word));
        return value;
      }
    }
    fail("expected True or False in the header");
  }
  void shape(NpyView& npy) {
    expect('(');
    while (!take(')')) {
      skip_space();
      std::uint64_t value = 0;
      std::size_t digits = 0;
      while (digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9') {
        value = value * 10 + static_cast<std::uint64_t>(text_[digits] - '0');
        if (++digits > 18) fail("absurd shape");
      }
      if (digits == 0 || npy.type.shape.size() >= 32) fail("malformed shape");
      text_.remove_prefix(digits);
      take('L');  // written by Python 2
      npy.type.shape.push_back(value);
      take(',');
    }
  }

  std::string_view text_;
  const std::string& path_;
  const std::string& place_;
};

// Copies one element, reversing each number's bytes if `swap`.
void copy_element(const std::byte* from, std::byte* to, std::size_t size, std::size_t number,
                  bool swap) {
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t base = i / number * number;
    to[i] = from[swap ? base + number - 1 - (i - base) : i];
  }
}

}  // namespace

std::size_t dtype_size(DType dtype) noexcept { return row(dtype).size; }
std::string_view dtype_name(DType dtype) noexcept { return row(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::uint64_t ArrayType::elements() const noexcept {
  std::uint64_t product = 1;
  for (const std::uint64_t extent : shape) product = saturating_multiply(product, extent);
  return product;
}

std::uint64_t ArrayType::bytes() const noexcept {
  return saturating_multiply(elements(), dtype_size(dtype));
}

NpyView parse_npy(std::span<const std::byte> bytes, const std::string& path,
                  const std::string& place) {
  const auto damaged = [&](const std::string& cause) {
    return Error(ErrorCode::kDataLoss, path, place, "damaged npy array: " + cause);
  };
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kNpyMagic) || text.size() < 10) throw damaged("no npy signature");
  const auto at = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(text[i]));
  };
  const std::size_t version = at(6);
  if (version < 1 || version > 3) throw damaged("unknown version " + std::to_string(version));
  const std::size_t start = version == 1 ? 10 : 12;
  if (text.size() < start) throw damaged("cut off in the header");
  std::size_t length = at(8) | at(9) << 8;
  if (version > 1) length |= at(10) << 16 | at(11) << 24;
  if (length > text.size() - start) throw damaged("cut off in the header");
  NpyView npy = HeaderParser(text.substr(start, length), path, place).parse();
  npy.data = bytes.subspan(start + length);
  const std::uint64_t expected = npy.type.bytes();
  if (npy.data.size() < expected) {
    throw damaged("has " + std::to_string(npy.data.size()) + " bytes of elements, expected " +
                  std::to_string(expected));
  }
  npy.data = npy.data.first(static_cast<std::size_t>(expected));
  return npy;
}

std::string npy_header(const ArrayType& type) {
  const DTypeRow& element = row(type.dtype);
  std::string text = "{'descr': '";
  text += element.size == 1 ? '|' : '<';
  text += element.npy;
  text += "', 'fortran_order': False, 'shape': (";
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(type.shape[i]);
  }
  text += type.shape.size() == 1 ? ",), }" : "), }";
  // NumPy leaves room for the first extent to grow, then pads to a multiple of 64 with a newline.
  if (!type.shape.empty()) {
    text.append(21 - std::to_string(type.shape[0]).size(), ' ');
  }
  constexpr std::size_t kPreamble = 10;
  constexpr std::size_t kAlignment = 64;
  const std::size_t padded =
      (kPreamble + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  text.append(padded - kPreamble - text.size() - 1, ' ');
  text += '\n';
  SHARDMILL_CHECK(text.size() <= 0xFFFF);
  std::string header(kNpyMagic);
  header += '\x01';
  header += '\x00';
  header += static_cast<char>(text.size() & 0xFF);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

void canonical_elements(const NpyView& npy, std::byte* out) {
  if (npy.canonical()) {
    if (!npy.data.empty()) std::memcpy(out, npy.data.data(), npy.data.size());
    return;
  }
  const std::size_t size = dtype_size(npy.type.dtype);
  const bool complex = npy.type.dtype == DType::kComplex64 || npy.type.dtype == DType::kComplex128;
  const std::size_t number = complex ? size / 2 : size;
  const auto& shape = npy.type.shape;
  // Walks the index space in C order; the source stride of axis i is, in Fortran order, the
  // product of the extents before it.
  std::vector<std::uint64_t> stride(shape.size(), 1);
  if (npy.fortran_order) {
    for (std::size_t i = 1; i < shape.size(); ++i) stride[i] = stride[i - 1] * shape[i - 1];
  } else {
    for (std::size_t i = shape.size(); i-- > 1;) stride[i - 1] = stride[i] * shape[i];
  }
  std::vector<std::uint64_t> index(shape.size(), 0);
  std::uint64_t source = 0;
  for (std::uint64_t n = npy.type.elements(); n > 0; --n) {
    copy_element(npy.data.data() + source * size, out, size, number, npy.big_endian);
    out += size;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      source += stride[axis];
      if (++index[axis] < shape[axis]) break;
      source -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace shardmill
