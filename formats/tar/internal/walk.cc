// SPDX-License-Identifier: Apache-2.0
#include "formats/tar/internal/walk.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <charconv>

namespace shardmill::tar {

namespace {

// A little more than the largest blocking factor in use; a longer run of zeros behind the end
// mark is not padding but data that never reached the disk.
constexpr std::uint64_t kLongestPadding = 1 << 20;
constexpr std::uint64_t kWindow = 1 << 16;
constexpr std::uint64_t kLongestExtension = 1 << 30;  // a header that says something of the next

std::optional<std::uint64_t> parse_decimal(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value >> 63 != 0) return {};
  return value;
}

// Types whose size field counts no data, as GNU tar and Python read them.
bool without_data(char type) { return type >= '1' && type <= '6'; }

}  // namespace

void Walk::damaged(std::uint64_t offset, const std::string& cause) const {
  throw Error(ErrorCode::kDataLoss, input_.path(), "offset " + std::to_string(offset), cause,
              "copy or convert the file again");
}

// Finds the next header block; false at the end of the archive.
bool Walk::header(Bytes& out) {
  out = input_.bytes(at_, kBlock);
  if (out.empty() && !extended_ && at_ == input_.size()) {
    if (!found_any_) damaged(at_, "the file is empty: not a tar archive");
    warnings_.push_back("the archive has no end mark (two blocks of zeros): it may be cut off");
    return false;
  }
  if (out.size() < kBlock) damaged(at_, "the archive is truncated");
  if (is_zero(out)) {
    if (extended_) damaged(at_, "an extended header has no member behind it");
    end_mark();
    return false;
  }
  if (!checksum_fits(out)) {
    damaged(at_, found_any_ ? "damaged tar header: the checksum does not fit"
                            : "no tar archive, or a damaged one: the checksum of its first header "
                              "does not fit");
  }
  found_any_ = true;
  last_header_ = at_;
  at_ += kBlock;
  return true;
}

// Looks behind the first zero block: nothing but zeros should follow.
void Walk::end_mark() {
  const std::uint64_t mark = at_;
  bool data = false;
  for (at_ += kBlock;; at_ += kWindow) {
    const Bytes bytes = input_.bytes(at_, kWindow);
    if (!is_zero(bytes)) data = true;
    // A stream is read to its end, where its checksum stands.
    if (bytes.size() < kWindow || (data && input_.size())) {
      at_ += bytes.size();
      break;
    }
  }
  const std::uint64_t rest = at_ - mark;
  if (data) {
    warnings_.push_back("the end mark at offset " + std::to_string(mark) +
                        " is followed by data, which are not read: several archives in one file, "
                        "or damage");
  } else if (rest < 2 * kBlock) {
    warnings_.push_back("the archive ends in one block of zeros instead of two");
  } else if (rest > kLongestPadding) {
    warnings_.push_back("the end mark at offset " + std::to_string(mark) + " is followed by " +
                        std::to_string(rest) +
                        " bytes of zeros: the end of the archive may be lost");
  }
}

bool Walk::next(Member& out) {
  long_name_.clear();
  local_ = {};
  has_local_ = false;
  extended_ = false;
  for (Bytes block; header(block);) {
    const HeaderView view(block);
    const char type = view.type();
    const auto size = view.size();
    if (!size) damaged(last_header_, "damaged tar header: malformed size");
    if (!extension(type, *size)) {
      fill(out, block, type, *size);
      return true;
    }
  }
  return false;
}

// Takes in a header that only says something about the next member; false if it is none.
bool Walk::extension(char type, std::uint64_t size) {
  if (type != 'L' && type != 'K' && type != 'x' && type != 'X' && type != 'g') return false;
  if (size > kLongestExtension) damaged(last_header_, "an extended header of absurd size");
  const std::string data(as_text(input_.bytes(at_, size)));
  if (data.size() < size) {
    damaged(last_header_, "the archive is truncated inside an extended header");
  }
  // Of several headers of one kind the first counts, as in Python's tarfile and so WebDataset.
  if (type == 'L' && long_name_.empty()) long_name_ = data.substr(0, data.find('\0'));
  if (type == 'x' || type == 'X') {
    Pax later;
    parse_pax(data, at_, has_local_ ? later : local_);
    has_local_ = true;
  }
  if (type == 'g') parse_pax(data, at_, global_);
  at_ += padded(size);
  extended_ = extended_ || type != 'g';
  return true;
}

void Walk::parse_pax(const std::string& records, std::uint64_t offset, Pax& out) {
  for (std::size_t at = 0; at < records.size();) {
    const std::size_t space = records.find(' ', at);
    const auto length =
        parse_decimal(std::string_view(records).substr(at, std::min(space, records.size()) - at));
    if (space == std::string::npos || !length || *length > records.size() - at ||
        *length < space - at + 3 || records[at + *length - 1] != '\n') {
      damaged(offset + at, "malformed pax header record");
    }
    const std::string_view record =
        std::string_view(records).substr(space + 1, at + *length - 1 - (space + 1));
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      damaged(offset + at, "malformed pax header record");
    }
    set_pax(out, record.substr(0, equals), record.substr(equals + 1), offset + at);
    at += *length;
  }
}

void Walk::set_pax(Pax& out, std::string_view key, std::string_view value, std::uint64_t offset) {
  const bool sparse_name = key == "GNU.sparse.name";
  if (key == "path" || sparse_name) {
    if (value.find('\0') != std::string_view::npos) damaged(offset, "a name holds a NUL byte");
    // The name outside a sparse record is a placeholder and may come after the real one.
    if (sparse_name || !out.sparse || out.path.empty()) out.path = value;
  }
  const bool real_size = key == "GNU.sparse.size" || key == "GNU.sparse.realsize";
  if (key == "size" || real_size) {
    const auto number = parse_decimal(value);
    if (!number && !value.empty()) damaged(offset, "malformed size in a pax header");
    (real_size ? out.real_size : out.size) = number;
  }
  if (key.starts_with("GNU.sparse.") || key == "SUN.holesdata") out.sparse = true;
}

// Moves behind the blocks in which an old GNU header continues its map of holes.
void Walk::skip_sparse_map(Member& out, bool more) {
  scratch_ = out.name;  // the name may lie in a window that moves on
  out.name = scratch_;
  while (more) {
    const Bytes block = input_.bytes(at_, kBlock);
    if (block.size() < kBlock) damaged(at_, "the archive is truncated inside a sparse map");
    more = as_text(block)[504] != '\0';
    at_ += kBlock;
  }
}

void Walk::fill(Member& out, Bytes block, char type, std::uint64_t size) {
  const HeaderView view(block);
  const std::string& path = local_.path.empty() ? global_.path : local_.path;
  if (!path.empty()) {
    out.name = path;
  } else if (!long_name_.empty()) {
    out.name = long_name_;
  } else if (const std::string_view prefix = view.prefix(); !prefix.empty()) {
    scratch_.assign(prefix).append("/").append(view.name());
    out.name = scratch_;
  } else {
    out.name = view.name();
  }
  const bool was_regular = type == '0' || type == '\0';
  out.type = was_regular && out.name.ends_with('/') ? '5' : type;
  out.sparse = type == 'S' || local_.sparse;
  if (local_.size || global_.size) size = local_.size ? *local_.size : *global_.size;
  out.size = out.real_size = size;
  out.header_hash = header_hash(block);
  if (local_.real_size) out.real_size = *local_.real_size;
  if (type == 'S') {
    out.real_size = view.sparse_size().value_or(size);
    skip_sparse_map(out, view.sparse_extended());
  }
  out.data_offset = at_;
  if (without_data(type)) return;
  const auto known = input_.size();
  if (known && (at_ > *known || size > *known - at_ || padded(size) > *known - at_)) {
    damaged(last_header_, "the archive is truncated: it ends at " + std::to_string(*known) +
                              " bytes, member \"" + escape(out.name) + "\" needs " +
                              std::to_string(size) + " from " + std::to_string(at_));
  }
  at_ += padded(size);
}

}  // namespace shardmill::tar
