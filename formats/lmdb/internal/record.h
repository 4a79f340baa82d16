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

/// Returns the size of the MessagePack map that append_record() makes; saturates.
std::uint64_t record_size(std::string_view key, std::span<const FieldView* const> fields);

/// Appends a sample as a MessagePack map: `__key__`, then the fields as they come, values as
/// bin. Key and names are str if they are UTF-8, else bin. Arrays become .npy files.
/// REQUIRES: record_size() <= kMaxRecordBytes.
void append_record(std::string_view key, std::span<const FieldView* const> fields,
                   std::string& out);

/// Parses a record in place: `key` and `fields` (sorted by name) point into `bytes`. Values may
/// be bin or str. Returns null, or what is wrong with the record.
const char* parse_record(Bytes bytes, std::string_view& key, std::vector<FieldView>& fields);

/// True if `bytes` begin like a record: a map whose first name is `__key__`.
bool looks_like_record(Bytes bytes);

}  // namespace shardmill::lmdb
