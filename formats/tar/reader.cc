// SPDX-License-Identifier: Apache-2.0
#include "formats/tar/reader.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <utility>

#include "formats/internal/member_name.h"

namespace shardmill::tar {

TarReader::TarReader(const std::filesystem::path& path, Bytes index, Access access)
    : file_(path, access), index_(index, path.string()) {
  if (index_.file().size != file_.size()) {
    stale({}, "it was made of a file of " + std::to_string(index_.file().size) +
                  " bytes, this one has " + std::to_string(file_.size()));
  }
  info_.layout = "webdataset";
  info_.warnings = index_.warnings();
}

void TarReader::stale(std::string place, const std::string& cause) const {
  throw Error(ErrorCode::kDataLoss, file_.path(), std::move(place), "the index is stale: " + cause,
              "build the index again, and check the file with shardmill verify");
}

void TarReader::read(std::uint64_t n, SampleView& out) {
  SHARDMILL_CHECK(n < size());
  file_.release();
  fields_.clear();
  for (const IndexMember& member : index_.members(n)) {
    fields_.push_back({index_.field(member), value(n, member)});
  }
  out.key = index_.key(n);
  out.fields = fields_;
}

std::string TarReader::where(std::uint64_t n, std::string_view field) const {
  for (const IndexMember& member : index_.members(n)) {
    if (index_.field(member) == field) return "offset " + std::to_string(member.data_offset);
  }
  return {};
}

Bytes TarReader::value(std::uint64_t n, const IndexMember& member) {
  if (member.data_offset < kBlock || member.size > file_.size()) {
    stale(sample_place(index_.key(n), index_.field(member)), "a member lies outside the file");
  }
  const Bytes bytes = file_.bytes(member.data_offset - kBlock, kBlock + member.size);
  const bool known = member.header_hash == kUnknownHeader
                         ? is_header_of(n, member, HeaderView(bytes.first(kBlock)))
                         : header_hash(bytes.first(kBlock)) == member.header_hash;
  if (!known) {
    stale(sample_place(index_.key(n), index_.field(member)),
          "the header at offset " + std::to_string(member.data_offset - kBlock) +
              " is not the one that was indexed");
  }
  return bytes.subspan(kBlock);
}

// The same for a header of which an index made by another program only tells name and size.
bool TarReader::is_header_of(std::uint64_t n, const IndexMember& member,
                             const HeaderView& header) const {
  const bool regular = header.type() == '0' || header.type() == '\0' || header.type() == '7';
  if (!regular || !header.valid() || header.size() != member.size) return false;
  std::string name(header.prefix());
  if (!name.empty()) name += '/';
  name += header.name();
  std::string_view key;
  std::string_view field;
  if (!split_member_name(name, key, field) || key != index_.key(n)) return false;
  std::string lower(field);
  internal::lower_case(lower);
  return lower == index_.field(member);
}

void TarReader::will_need(std::uint64_t n) noexcept {
  if (n >= size()) return;
  try {
    std::uint64_t begin = file_.size();
    std::uint64_t end = 0;
    for (const IndexMember& member : index_.members(n)) {
      begin = std::min(begin, member.data_offset - kBlock);
      end = std::max(end, member.data_offset + member.size);
    }
    if (begin < end) file_.will_need(begin, end - begin);
  } catch (const Error&) {
    // A damaged index is reported by read().
  }
}

}  // namespace shardmill::tar
