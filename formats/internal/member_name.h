// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/sample.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill::internal {

/// What formats that store each field as a file KEY.FIELD (tar, folder) share: which names they
/// can carry, and which names found there are not samples.

/// Returns the part after the last '/'.
std::string_view base_name(std::string_view path) noexcept;

/// Turns ASCII letters to lower case, independent of the locale.
void lower_case(std::string& text) noexcept;

/// True for names that operating systems and editors leave behind, which are never data: hidden
/// (leading dot, so also `._*`), Thumbs.db, desktop.ini, __MACOSX.
bool is_junk_name(std::string_view base) noexcept;

/// True for archive members that are not sample fields: hidden base names, anything below
/// PaxHeader* or __MACOSX, and WebDataset's metadata (first component `__…__`).
bool is_metadata_member(std::string_view name) noexcept;

/// One field of a sample as a file holds it. Arrays get an .npy header, and ".npy" at the end of
/// the field's name if it is not there.
struct MemberValue {
  std::string field;
  std::string header;
  Bytes bytes;

  std::uint64_t size() const noexcept { return header.size() + bytes.size(); }
};

/// Replaces `out` by the fields of `sample` in the order of their names. Throws kInvalidArgument
/// for names that are wrong anywhere (empty, NUL, `..`, duplicate field) and kUnsupported for
/// names that would be read back as another key or field, or be left out. `path` is the shard.
void plan_members(const SampleView& sample, const std::string& path, std::vector<MemberValue>& out);

}  // namespace shardmill::internal
