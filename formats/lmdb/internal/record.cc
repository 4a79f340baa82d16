// SPDX-License-Identifier: Apache-2.0
#include "formats/lmdb/internal/record.h"

#include <algorithm>
#include <limits>

namespace shardmill::lmdb {

namespace {

// MessagePack's type bytes, as far as records use them.
constexpr unsigned kFixMap = 0x80;
constexpr unsigned kFixStr = 0xA0;
constexpr unsigned kBin8 = 0xC4;
constexpr unsigned kBin16 = 0xC5;
constexpr unsigned kBin32 = 0xC6;
constexpr unsigned kStr8 = 0xD9;
constexpr unsigned kStr16 = 0xDA;
constexpr unsigned kStr32 = 0xDB;
constexpr unsigned kMap16 = 0xDE;
constexpr unsigned kMap32 = 0xDF;

constexpr const char* kCutOff = "MessagePack map is cut off";

std::uint64_t add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::uint64_t>::max() : sum;
}

// Python's msgpack refuses str that is not UTF-8, surrogates included.
bool is_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned first = byte(i++);
    if (first < 0x80) continue;
    const std::size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    if (first < 0xC2 || first > 0xF4 || more > text.size() - i) return false;
    const unsigned second = byte(i);
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
        (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) {
      return false;
    }
    for (const std::size_t end = i + more; i < end; ++i) {
      if ((byte(i) & 0xC0) != 0x80) return false;
    }
  }
  return true;
}

void append_number(std::string& out, std::uint64_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    out += static_cast<char>(value >> shift & 0xFF);
  }
}

// The types of 8-, 16- and 32-bit lengths follow each other.
void append_head(std::string& out, std::uint64_t length, unsigned type8) {
  const unsigned step = length < 0x100 ? 0 : length < 0x10000 ? 1 : 2;
  out += static_cast<char>(type8 + step);
  append_number(out, length, 1 << step);
}

void append_name(std::string& out, std::string_view name) {
  const bool text = is_utf8(name);
  if (text && name.size() < 32) {
    out += static_cast<char>(kFixStr | name.size());
  } else {
    append_head(out, name.size(), text ? kStr8 : kBin8);
  }
  out += name;
}

// Takes pieces from the front of a record.
class Cursor {
 public:
  explicit Cursor(Bytes bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }

  bool number(int size, std::uint64_t& value) {
    if (rest_.size() < static_cast<std::size_t>(size)) return false;
    value = 0;
    for (int i = 0; i < size; ++i)
      value = value << 8 | static_cast<std::uint64_t>(rest_[static_cast<std::size_t>(i)]);
    rest_ = rest_.subspan(static_cast<std::size_t>(size));
    return true;
  }

  const char* map(std::uint64_t& pairs) {
    std::uint64_t type = 0;
    if (!number(1, type)) return kCutOff;
    if (type == kMap16) return number(2, pairs) ? nullptr : kCutOff;
    if (type == kMap32) return number(4, pairs) ? nullptr : kCutOff;
    if (type < kFixMap || type > kFixMap + 15) return "value is not a MessagePack map";
    pairs = type - kFixMap;
    return nullptr;
  }

  // Takes a str or bin; `wrong` is what is wrong if it is neither.
  const char* bytes(Bytes& out, const char* wrong) {
    std::uint64_t type = 0;
    std::uint64_t length = 0;
    if (!number(1, type)) return kCutOff;
    if (type >= kFixStr && type < kFixStr + 32) {
      length = type - kFixStr;
    } else if (type >= kBin8 && type <= kBin32) {
      if (!number(1 << (type - kBin8), length)) return kCutOff;
    } else if (type >= kStr8 && type <= kStr32) {
      if (!number(1 << (type - kStr8), length)) return kCutOff;
    } else {
      return wrong;
    }
    if (length > rest_.size()) return kCutOff;
    out = rest_.first(length);
    rest_ = rest_.subspan(length);
    return nullptr;
  }

 private:
  Bytes rest_;
};

bool by_name(const FieldView& a, const FieldView& b) { return a.name < b.name; }

// Brings fields into the order that views promise, which our writer gave them already.
const char* order(std::vector<FieldView>& fields) {
  const auto same = [](const FieldView& a, const FieldView& b) { return a.name == b.name; };
  const auto not_ascending = [](const FieldView& a, const FieldView& b) {
    return !(a.name < b.name);
  };
  if (std::adjacent_find(fields.begin(), fields.end(), not_ascending) == fields.end()) {
    return nullptr;
  }
  std::sort(fields.begin(), fields.end(), by_name);
  return std::adjacent_find(fields.begin(), fields.end(), same) == fields.end()
             ? nullptr
             : "a field stands twice in the record";
}

}  // namespace

void RecordDraft::assign(std::string_view key, std::span<const FieldView* const> fields) {
  heads_.clear();
  cuts_.clear();
  const std::size_t pairs = fields.size() + 1;
  if (pairs < 16) {
    heads_ += static_cast<char>(kFixMap | pairs);
  } else {
    heads_ += static_cast<char>(pairs < 0x10000 ? kMap16 : kMap32);
    append_number(heads_, pairs, pairs < 0x10000 ? 2 : 4);
  }
  append_name(heads_, kKeyName);
  append_name(heads_, key);
  size_ = 0;
  for (const FieldView* field : fields) {
    append_name(heads_, field->name);
    const std::string header = field->array != nullptr ? npy_header(*field->array) : std::string();
    append_head(heads_, header.size() + field->bytes.size(), kBin8);
    heads_ += header;
    cuts_.push_back(heads_.size());
    size_ = add(size_, field->bytes.size());
  }
  size_ = add(size_, heads_.size());
  pieces_.clear();
  std::size_t begin = 0;
  for (std::size_t i = 0; i < fields.size(); begin = cuts_[i++]) {
    pieces_.push_back(as_bytes(std::string_view(heads_).substr(begin, cuts_[i] - begin)));
    pieces_.push_back(fields[i]->bytes);
  }
  if (fields.empty()) pieces_.push_back(as_bytes(heads_));
}

const char* parse_record(Bytes bytes, std::string_view& key, std::vector<FieldView>& fields) {
  fields.clear();
  Cursor cursor(bytes);
  std::uint64_t pairs = 0;
  if (const char* wrong = cursor.map(pairs)) return wrong;
  bool have_key = false;
  for (; pairs > 0; --pairs) {
    Bytes name;
    Bytes value;
    if (const char* wrong = cursor.bytes(name, "a name is neither str nor bin")) return wrong;
    if (const char* wrong = cursor.bytes(value, "a value is neither bin nor str")) return wrong;
    if (as_text(name) != kKeyName) {
      fields.push_back({as_text(name), value, nullptr});
    } else {
      if (have_key) return "__key__ stands twice in the record";
      key = as_text(value);
      have_key = true;
    }
  }
  if (!cursor.empty()) return "bytes follow the MessagePack map";
  if (!have_key || key.empty()) return "the record has no __key__";
  return order(fields);
}

bool looks_like_record(Bytes bytes) {
  Cursor cursor(bytes);
  std::uint64_t pairs = 0;
  Bytes name;
  return cursor.map(pairs) == nullptr && cursor.bytes(name, "") == nullptr &&
         as_text(name) == kKeyName;
}

}  // namespace shardmill::lmdb
