// SPDX-License-Identifier: Apache-2.0
#include "formats/lmdb/internal/datum.h"

#include <bit>
#include <cstring>

namespace shardmill::lmdb {

namespace {

constexpr const char* kNoDatum = "value is no Caffe Datum";
constexpr std::uint64_t kMaxExtent = 0x7FFFFFFF;

enum Wire : unsigned { kVarint = 0, kFixed64 = 1, kDelimited = 2, kFixed32 = 5 };

// Takes protocol buffer fields from the front.
class Cursor {
 public:
  explicit Cursor(Bytes bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }

  bool varint(std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<std::uint64_t>(rest_[0]);
      rest_ = rest_.subspan(1);
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

  bool take(std::uint64_t size, Bytes& out) {
    if (size > rest_.size()) return false;
    out = rest_.first(size);
    rest_ = rest_.subspan(size);
    return true;
  }

 private:
  Bytes rest_;
};

void append_floats(Bytes bytes, std::vector<float>& out) {
  for (; bytes.size() >= sizeof(float); bytes = bytes.subspan(sizeof(float))) {
    float value = 0;
    std::memcpy(&value, bytes.data(), sizeof value);
    out.push_back(value);
  }
}

bool take_number(unsigned field, std::uint64_t value, Datum& out) {
  if (field <= 3 && value > kMaxExtent) return false;
  if (field == 1) out.channels = value;
  if (field == 2) out.height = value;
  if (field == 3) out.width = value;
  if (field == 7) out.encoded = value != 0;
  if (field == 5) {
    out.has_label = true;
    out.label = static_cast<std::int32_t>(value);  // negative ones have ten bytes
  }
  return field != 4 && field != 6;
}

// One field. Caffe's own are checked; others, of forks, are passed over.
bool take_field(Cursor& cursor, Datum& out) {
  std::uint64_t tag = 0;
  if (!cursor.varint(tag) || tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF) return false;
  const auto field = static_cast<unsigned>(tag >> 3);
  const auto wire = static_cast<unsigned>(tag & 7);
  const bool is_number = field <= 3 || field == 5 || field == 7;
  std::uint64_t number = 0;
  Bytes bytes;
  switch (wire) {
    case kVarint:
      return cursor.varint(number) && take_number(field, number, out);
    case kFixed64:
      return cursor.take(8, bytes) && field > 7;
    case kFixed32:
      if (!cursor.take(4, bytes)) return false;
      if (field == 6) append_floats(bytes, out.floats);
      return field >= 6 && field != 7;
    case kDelimited:
      if (!cursor.varint(number) || !cursor.take(number, bytes) || is_number) return false;
      if (field == 4) out.data = bytes;
      if (field == 6) append_floats(bytes, out.floats);
      return field != 6 || bytes.size() % sizeof(float) == 0;
    default:
      return false;
  }
}

}  // namespace

static_assert(std::endian::native == std::endian::little, "floats are copied as they lie there");

const char* parse_datum(Bytes bytes, Datum& out) {
  out.floats.clear();
  std::vector<float> floats = std::move(out.floats);
  out = {};
  out.floats = std::move(floats);
  Cursor cursor(bytes);
  while (!cursor.empty()) {
    if (!take_field(cursor, out)) return kNoDatum;
  }
  if (out.encoded) return out.data.empty() ? "Datum without data" : nullptr;
  std::uint64_t elements = out.channels;
  if (__builtin_mul_overflow(elements, out.height, &elements) ||
      __builtin_mul_overflow(elements, out.width, &elements) || elements == 0) {
    return "Datum without a shape";
  }
  if (!out.data.empty() && out.data.size() != elements) {
    return "Datum whose data do not have the size that its shape says";
  }
  if (out.data.empty() && out.floats.size() != elements) {
    return "Datum whose floats are not as many as its shape says";
  }
  return nullptr;
}

void interleave(const Datum& datum, std::byte* out) noexcept {
  const std::uint64_t plane = datum.height * datum.width;
  for (std::uint64_t c = 0; c < datum.channels; ++c) {
    // BGR becomes RGB; a single channel and alpha stay where they are.
    const std::uint64_t from = datum.channels >= 3 && c < 3 ? 2 - c : c;
    const std::byte* in = datum.data.data() + from * plane;
    for (std::uint64_t i = 0; i < plane; ++i) out[i * datum.channels + c] = in[i];
  }
}

}  // namespace shardmill::lmdb
