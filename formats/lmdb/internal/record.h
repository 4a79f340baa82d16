// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill::lmdb {

/// The key of the entry that describes a shard; sorts behind all sample numbers.
inline constexpr std::string_view kDescriptionKey = "__shardmill__";
/// The name under which a record holds its sample's key.
inline constexpr std::string_view kKeyName = "__key__";
/// LMDB keeps sizes of values in 32 bits.
inline constexpr std::uint64_t kMaxRecordBytes = 0xFFFFFFFF;

/// A sample as a MessagePack map: `__key__`, then the fields as they come, values as bin. Key and
/// names are str if they are UTF-8, else bin. Arrays become .npy files. Values are not copied.
class RecordDraft {
 public:
  /// Makes the record of a sample; the fields' values must stay as long as pieces() are used.
  void assign(std::string_view key, std::span<const FieldView* const> fields);
  /// The record, one piece behind the other. Valid until the next assign().
  std::span<const Bytes> pieces() const noexcept { return pieces_; }
  std::uint64_t size() const noexcept { return size_; }  ///< Of all pieces; saturates.

 private:
  std::string heads_;  // all but the values
  std::vector<std::size_t> cuts_;
  std::vector<Bytes> pieces_;
  std::uint64_t size_ = 0;
};

/// Parses a record in place: `key` and `fields` (sorted by name) point into `bytes`. Values may
/// be bin or str. Returns null, or what is wrong with the record.
const char* parse_record(Bytes bytes, std::string_view& key, std::vector<FieldView>& fields);

/// True if `bytes` begin like a record: a map whose first name is `__key__`.
bool looks_like_record(Bytes bytes);

}  // namespace shardmill::lmdb
