// SPDX-License-Identifier: Apache-2.0
#include <openssl/evp.h>
#include <shardmill/formats/digest.h>
#include <shardmill/formats/error.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <memory>

#include "formats/internal/input_file.h"

namespace shardmill {

namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

// Marks the kind of a value in the hashed stream, so that no two values hash alike by accident.
enum class ValueKind : std::uint8_t { kBytes = 0, kArray = 1 };

struct XxhDeleter {
  void operator()(XXH3_state_t* state) const noexcept { XXH3_freeState(state); }
};
using XxhState = std::unique_ptr<XXH3_state_t, XxhDeleter>;

Digest to_digest(XXH128_hash_t hash) noexcept { return {hash.high64, hash.low64}; }

// Returns `text` without leading zeros and plus sign if it is a decimal integer, else unchanged.
std::string_view shortest_decimal(std::string_view text, std::string& buffer) {
  std::string_view digits = text;
  const bool negative = !digits.empty() && digits[0] == '-';
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) {
    return text;
  }
  const std::size_t first = digits.find_first_not_of('0');
  if (first == std::string_view::npos) return "0";
  digits.remove_prefix(first);
  if (!negative) return digits;
  buffer = "-";
  buffer += digits;
  return buffer;
}

}  // namespace

Digest& Digest::operator+=(const Digest& other) noexcept {
  low += other.low;
  high += other.high + (low < other.low ? 1 : 0);
  return *this;
}

std::string Digest::hex() const {
  std::string text;
  for (const std::uint64_t half : {high, low}) {
    for (int shift = 60; shift >= 0; shift -= 4) text += kHexDigits[half >> shift & 15];
  }
  return text;
}

Digest Digest::from_hex(std::string_view hex) {
  if (hex.size() != 32 || hex.find_first_not_of(kHexDigits) != std::string_view::npos) {
    throw Error(ErrorCode::kDataLoss, {}, {}, "malformed digest \"" + escape(hex) + "\"");
  }
  const auto half = [&](std::size_t begin) {
    std::uint64_t value = 0;
    for (const char c : hex.substr(begin, 16)) {
      value = value << 4 | static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return value;
  };
  return {half(0), half(16)};
}

struct SampleHasher::State {
  XxhState xxh{XXH3_createState()};
  std::vector<const FieldView*> fields;
  std::vector<std::byte> elements;
  std::string decimal;

  void update(const void* data, std::size_t size) { XXH3_128bits_update(xxh.get(), data, size); }
  void update_length(std::uint64_t length) {
    std::array<unsigned char, 8> bytes;
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<unsigned char>(length >> (8 * i));
    update(bytes.data(), bytes.size());
  }
  void update_text(std::string_view text) {
    update_length(text.size());
    update(text.data(), text.size());
  }
  void update_kind(ValueKind kind) { update(&kind, 1); }
  void update_array(const ArrayType& type, const std::byte* data) {
    update_kind(ValueKind::kArray);
    update_text(dtype_name(type.dtype));
    update_length(type.shape.size());
    for (const std::uint64_t extent : type.shape) update_length(extent);
    update(data, static_cast<std::size_t>(type.bytes()));
  }
  void update_field(const FieldView& field);
};

namespace {

constexpr std::string_view kNpySuffix = ".npy";
constexpr std::string_view kNpyMagic = "\x93NUMPY";

// Formats without arrays of their own store the array field `x` as `x.npy`: one field.
std::string_view array_name(std::string_view name) {
  if (name.ends_with(kNpySuffix)) name.remove_suffix(kNpySuffix.size());
  return name;
}

}  // namespace

void SampleHasher::State::update_field(const FieldView& field) {
  if (field.array != nullptr) {
    update_text(array_name(field.name));
    return update_array(*field.array, field.bytes.data());
  }
  if (as_text(field.bytes).starts_with(kNpyMagic)) {
    // An .npy value that cannot be parsed (object arrays, damage) counts as its stored bytes.
    try {
      const NpyView view = parse_npy(field.bytes, {}, {});
      update_text(array_name(field.name));
      if (view.canonical()) return update_array(view.type, view.data.data());
      elements.resize(view.data.size());
      canonical_elements(view, elements.data());
      return update_array(view.type, elements.data());
    } catch (const Error&) {
    }
  }
  update_text(field.name);
  update_kind(ValueKind::kBytes);
  if (field.name == "cls") return update_text(shortest_decimal(as_text(field.bytes), decimal));
  update_text(as_text(field.bytes));
}

SampleHasher::SampleHasher() : state_(std::make_unique<State>()) {}
SampleHasher::~SampleHasher() = default;
SampleHasher::SampleHasher(SampleHasher&&) noexcept = default;
SampleHasher& SampleHasher::operator=(SampleHasher&&) noexcept = default;

Digest SampleHasher::hash(const SampleView& sample) {
  State& s = *state_;
  XXH3_128bits_reset(s.xxh.get());
  s.update_text(sample.key);
  s.fields.clear();
  for (const FieldView& field : sample.fields) s.fields.push_back(&field);
  std::sort(s.fields.begin(), s.fields.end(), [](const FieldView* a, const FieldView* b) {
    const std::string_view a_name = array_name(a->name);
    const std::string_view b_name = array_name(b->name);
    return a_name != b_name ? a_name < b_name : a->name < b->name;
  });
  for (const FieldView* field : s.fields) s.update_field(*field);
  return to_digest(XXH3_128bits_digest(s.xxh.get()));
}

Digest hash_bytes(Bytes bytes) { return to_digest(XXH3_128bits(bytes.data(), bytes.size())); }

Digest hash_file(const std::string& path) {
  constexpr std::uint64_t kPiece = 1 << 20;
  internal::InputFile file(path, Access::kRead);
  const XxhState xxh(XXH3_createState());
  XXH3_128bits_reset(xxh.get());
  for (std::uint64_t at = 0; at < file.size(); at += kPiece) {
    const Bytes piece = file.bytes(at, std::min(kPiece, file.size() - at));
    XXH3_128bits_update(xxh.get(), piece.data(), piece.size());
    file.release();
  }
  return to_digest(XXH3_128bits_digest(xxh.get()));
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  SHARDMILL_CHECK(context_ != nullptr);
  EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context_), EVP_sha256(), nullptr);
}

Sha256::~Sha256() { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_)); }

void Sha256::update(Bytes bytes) {
  EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_), bytes.data(), bytes.size());
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> sum;
  EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_), sum.data(), nullptr);
  std::string text;
  for (const unsigned char byte : sum) {
    text += kHexDigits[byte >> 4];
    text += kHexDigits[byte & 15];
  }
  return text;
}

std::string sha256_hex(Bytes bytes) {
  Sha256 sum;
  sum.update(bytes);
  return sum.hex();
}

}  // namespace shardmill
