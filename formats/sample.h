// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/array.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill {

using Bytes = std::span<const std::byte>;

/// Views the characters of `text` as bytes, and the other way round. No copy.
inline Bytes as_bytes(std::string_view text) noexcept {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}
inline std::string_view as_text(Bytes bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// One named payload of a sample, e.g. {"jpg", <bytes>}.
///
/// `array` is null for a byte string (also for the bytes of an .npy file). A format that stores
/// numeric arrays natively (HDF5) lends the elements, C order, little-endian, and points `array`
/// to their type; `array` lives as long as the reader.
struct FieldView {
  std::string_view name;
  Bytes bytes;
  const ArrayType* array = nullptr;
};

/// A sample as a reader lends it. Key, names and bytes are valid until that reader's next
/// non-const call. Fields are sorted by name (byte order), names are unique. A field that the
/// sample lacks is not listed; an empty field is listed with no bytes.
struct SampleView {
  std::string_view key;
  std::span<const FieldView> fields;

  /// Returns the field `name`, or null if this sample lacks it.
  const FieldView* find(std::string_view name) const noexcept;
};

/// A sample that owns its bytes: what sources build, and how to keep a view.
class Sample {
 public:
  explicit Sample(std::string key) : key_(std::move(key)) {}
  /// Copies a view.
  explicit Sample(const SampleView& view);

  const std::string& key() const noexcept { return key_; }
  /// Adds a field (copies `bytes`); throws kInvalidArgument if `name` is there already.
  void add(std::string_view name, Bytes bytes, const ArrayType* array = nullptr);
  void add(std::string_view name, std::string_view text) { add(name, as_bytes(text)); }
  /// Returns a view of this sample, fields sorted by name; valid until the next add().
  SampleView view() const;

 private:
  struct Owned {
    std::string name;
    std::vector<std::byte> bytes;
    std::unique_ptr<ArrayType> array;
  };
  std::string key_;
  std::vector<Owned> fields_;             // sorted by name
  mutable std::vector<FieldView> views_;  // rebuilt by view()
};

/// Throws kInvalidArgument unless `key` is not empty, holds no NUL and is valid as a key of every
/// format. `path` names the dataset in the message.
void check_key(std::string_view key, const std::string& path);

/// Returns why writing a file called `key` below a directory would be unsafe (a `..` or empty
/// component, a leading '/', a NUL), or an empty string if it is safe.
std::string unsafe_key_reason(std::string_view key);

/// Splits the base name of a path into key and field by WebDataset's rule: the key is everything
/// (directories included) before the first dot of the base name, the field is everything after
/// it. Returns false where there is no such dot, or nothing before it.
bool split_member_name(std::string_view name, std::string_view& key, std::string_view& field);

/// True if the field holds an encoded image by its name: the last component of `field` is jpg,
/// jpeg, png or webp (lower case).
bool is_image_field(std::string_view field) noexcept;

}  // namespace shardmill
