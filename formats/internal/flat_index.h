// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace shardmill::internal {

/// Lays arrays of plain values out as one piece of bytes without pointers: a magic number, the
/// total size, a table of {offset, bytes} per section, then the sections, each at a multiple of
/// 8. The bytes can be stored, and mapped by any process of the same byte order.
class FlatIndexWriter {
 public:
  /// `magic` names kind and version of the index.
  explicit FlatIndexWriter(std::uint64_t magic) : magic_(magic) {}

  /// Adds the next section; `values` must live until finish().
  template <class T>
  void add(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 8);
    sections_.push_back(std::as_bytes(values));
  }
  void add(std::string_view text) { sections_.push_back(as_bytes(text)); }

  std::vector<std::byte> finish() const;

 private:
  std::uint64_t magic_;
  std::vector<Bytes> sections_;
};

/// Reads what FlatIndexWriter wrote. The constructor checks magic, size and that every section
/// lies inside; the meaning of the values is the caller's to check where it uses them.
class FlatIndexReader {
 public:
  /// Throws kDataLoss naming `path`, the shard, unless `bytes` is an index of kind `magic` with
  /// at least `sections` sections at an address that is a multiple of 8.
  FlatIndexReader(Bytes bytes, std::uint64_t magic, std::size_t sections, std::string path);

  /// Returns section `i` as values of type T; throws kDataLoss if its size does not fit them.
  template <class T>
  std::span<const T> get(std::size_t i) const {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 8);
    const Bytes bytes = section(i);
    if (bytes.size() % sizeof(T) != 0) damaged("a section has an odd size");
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  std::string_view text(std::size_t i) const { return as_text(section(i)); }

  /// Throws kDataLoss: the index contradicts itself.
  [[noreturn]] void damaged(std::string_view cause) const;

 private:
  Bytes section(std::size_t i) const;

  Bytes bytes_;
  std::string path_;
};

/// Appends `item` and a NUL to `list`, and splits such a list again. Items hold no NUL.
void append_item(std::string& list, std::string_view item);
std::vector<std::string> split_items(std::string_view list);

}  // namespace shardmill::internal
