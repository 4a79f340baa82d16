// SPDX-License-Identifier: Apache-2.0
#include "formats/tar/stream.h"

#include <shardmill/formats/error.h>

#include <algorithm>

#include "formats/internal/member_name.h"
#include "formats/tar/internal/header.h"

namespace shardmill::tar {

namespace {

constexpr std::uint64_t kPiece = 1 << 20;

}  // namespace

bool TarStream::next(SampleView& out) {
  count_ = 0;
  if (!waiting_ && !find_member()) return false;
  key_ = member_key_;
  do {
    take_member();
  } while (find_member() && member_key_ == key_);
  finish_sample();
  out.key = key_;
  out.fields = fields_;
  return true;
}

// Goes to the next member that is a field; false at the end.
bool TarStream::find_member() {
  waiting_ = false;
  if (done_) return false;
  std::string_view key;
  std::string_view field;
  while (walk_.next(member_)) {
    if (!rules_.take(member_, key, field)) continue;
    member_key_ = key;
    member_field_ = field;
    member_name_ = member_.name;
    internal::lower_case(member_field_);
    waiting_ = true;
    return true;
  }
  done_ = true;
  return false;
}

// Reads what the member holds. Memory grows as bytes arrive, not by what a header promises.
void TarStream::take_member() {
  if (count_ == values_.size()) values_.emplace_back();
  Value& value = values_[count_++];
  value.field = member_field_;
  value.header_offset = member_.data_offset - kBlock;
  value.size = 0;
  while (value.size < member_.size) {
    const std::uint64_t wanted = std::min(kPiece, member_.size - value.size);
    const Bytes piece = input_.bytes(member_.data_offset + value.size, wanted);
    if (value.bytes.size() < value.size + piece.size()) {
      value.bytes.resize(std::max(value.size + piece.size(), value.bytes.size() * 2));
    }
    std::copy(piece.begin(), piece.end(),
              value.bytes.begin() + static_cast<std::ptrdiff_t>(value.size));
    value.size += piece.size();
    if (piece.size() == wanted) continue;
    throw Error(ErrorCode::kDataLoss, input_.path(),
                "offset " + std::to_string(value.header_offset),
                "the archive is truncated inside member \"" + escape(member_name_) + "\"",
                "copy or convert the file again");
  }
  waiting_ = false;
}

void TarStream::finish_sample() {
  const auto end = values_.begin() + static_cast<std::ptrdiff_t>(count_);
  std::sort(values_.begin(), end, [](const Value& a, const Value& b) { return a.field < b.field; });
  const auto twice = std::adjacent_find(
      values_.begin(), end, [](const Value& a, const Value& b) { return a.field == b.field; });
  if (twice != end) {
    throw Error(ErrorCode::kDataLoss, input_.path(), sample_place(key_, twice->field),
                "duplicate field: two members of this name",
                "field names ignore case; rename one of the files and pack again");
  }
  if (!seen_.insert(key_)) rules_.counts().note(kRepeatedKeys, key_);
  fields_.clear();
  for (std::size_t i = 0; i < count_; ++i) {
    fields_.push_back({values_[i].field, Bytes(values_[i].bytes).first(values_[i].size)});
  }
}

const ShardInfo& TarStream::info() {
  info_.warnings = rules_.counts().lines();
  for (const std::string& line : walk_.warnings()) info_.warnings.push_back(line);
  return info_;
}

}  // namespace shardmill::tar
