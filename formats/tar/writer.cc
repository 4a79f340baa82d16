// SPDX-License-Identifier: Apache-2.0
#include "formats/tar/writer.h"

#include <shardmill/formats/error.h>

#include "formats/tar/internal/header.h"

namespace shardmill::tar {

namespace {

constexpr std::uint64_t kRecord = 20 * kBlock;  // what tar and Python's tarfile fill up to
constexpr std::byte kZeros[kRecord] = {};

// Archives made by `tar -C DIR .` have "./" in front of every name, which harms nobody here.
std::string_view without_dot_slash(std::string_view key) {
  while (key.starts_with("./")) key.remove_prefix(2);
  return key;
}

}  // namespace

void TarWriter::write(const SampleView& sample) {
  internal::plan_members({without_dot_slash(sample.key), sample.fields}, path_, members_);
  for (const internal::MemberValue& member : members_) {
    name_.assign(sample.key).append(".").append(member.field);
    if (!internal::is_metadata_member(name_)) continue;
    throw Error(ErrorCode::kUnsupported, path_, sample_place(sample.key, member.field),
                "tar readers leave out names with a first part __…__ or a folder __MACOSX or "
                "PaxHeader",
                "rename the sample, or choose a format that stores keys apart (lmdb, hdf5)");
  }
  if (!keys_.insert(sample.key)) {
    throw Error(ErrorCode::kInvalidArgument, path_, sample_place(sample.key), "duplicate key",
                "rename the sample");
  }
  for (const internal::MemberValue& member : members_) {
    name_.assign(sample.key).append(".").append(member.field);
    header_.clear();
    append_header(header_, name_, member.size());
    file_.write(as_bytes(header_));
    file_.write(as_bytes(member.header));
    file_.write(member.bytes);
    pad(kBlock);
  }
}

void TarWriter::pad(std::uint64_t boundary) {
  const std::uint64_t over = file_.offset() % boundary;
  if (over != 0) file_.write({kZeros, boundary - over});
}

void TarWriter::close() {
  file_.write({kZeros, 2 * kBlock});
  pad(kRecord);
  file_.close();
}

}  // namespace shardmill::tar
