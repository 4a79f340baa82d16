// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/object_header.h"

#include <shardmill/formats/error.h>

#include <cstring>
#include <deque>
#include <utility>

#include "formats/hdf5/internal/little_endian.h"

namespace shardmill::hdf5 {

namespace {

constexpr unsigned kAttributeMessage = 0x0C;
constexpr unsigned kContinuationMessage = 0x10;
constexpr unsigned kAttributeInfoMessage = 0x15;
constexpr std::uint64_t kNoAddress = ~std::uint64_t{0};
constexpr std::size_t kMaxHeaderBlocks = 1024;

class HeaderReader {
 public:
  HeaderReader(internal::InputFile& file, std::uint64_t base, const std::string& place)
      : file_(file), base_(base), place_(place) {}

  std::vector<HeaderMessage> read(std::uint64_t header) {
    const Bytes start = stored(header, 16);
    if (std::memcmp(start.data(), "OHDR", 4) == 0) {
      read_version_2(header);
    } else {
      if (start[0] != std::byte{1}) damaged("unknown object header version");
      read_version_1(header, start);
    }
    return std::move(messages_);
  }

 private:
  [[noreturn]] void damaged(const std::string& cause) const {
    throw Error(ErrorCode::kDataLoss, file_.path(), place_, cause,
                "copy or convert the file again");
  }

  Bytes stored(std::uint64_t address, std::uint64_t length) {
    std::uint64_t at = 0;
    if (__builtin_add_overflow(address, base_, &at) || at > file_.size() ||
        length > file_.size() - at) {
      damaged("its header lies outside the file");
    }
    file_.release();
    return file_.bytes(at, length);
  }

  void add(unsigned type, Bytes body) { messages_.push_back({type, {body.begin(), body.end()}}); }

  void read_version_1(std::uint64_t header, Bytes start) {
    auto left = little_endian<std::uint16_t>(start, 2);
    blocks_.emplace_back(header + 16, little_endian<std::uint32_t>(start, 8));
    for (std::size_t seen = 0; !blocks_.empty(); ++seen) {
      const Bytes block = next_block(seen);
      for (std::size_t o = 0; o + 8 <= block.size() && left > 0; --left) {
        const unsigned type = little_endian<std::uint16_t>(block, o);
        const std::size_t size = little_endian<std::uint16_t>(block, o + 2);
        if (size > block.size() - o - 8) damaged("a header message runs past its block");
        add(type, block.subspan(o + 8, size));
        if (type == kContinuationMessage) continue_at(0, 0);
        o += 8 + size;
      }
    }
  }

  void read_version_2(std::uint64_t header) {
    const unsigned flags = static_cast<unsigned>(stored(header, 6)[5]);
    std::uint64_t at = header + 6 + ((flags & 0x20) != 0 ? 16 : 0) + ((flags & 0x10) != 0 ? 4 : 0);
    const std::size_t width = std::size_t{1} << (flags & 3);
    std::uint64_t length = 0;
    std::memcpy(&length, stored(at, width).data(), width);
    const std::size_t prefix = (flags & 4) != 0 ? 6 : 4;
    blocks_.emplace_back(at + width, length);
    for (std::size_t seen = 0; !blocks_.empty(); ++seen) {
      const Bytes block = next_block(seen);
      for (std::size_t o = 0; o + prefix <= block.size();) {
        const unsigned type = static_cast<unsigned>(block[o]);
        const std::size_t size = little_endian<std::uint16_t>(block, o + 1);
        if (size > block.size() - o - prefix) break;  // a gap at the end of a block
        add(type, block.subspan(o + prefix, size));
        // Continuations have the signature OCHK before their messages and a checksum behind.
        if (type == kContinuationMessage) continue_at(4, 8);
        o += prefix + size;
      }
    }
  }

  Bytes next_block(std::size_t seen) {
    if (seen > kMaxHeaderBlocks) damaged("its header has no end");
    const auto [at, length] = blocks_.front();
    blocks_.pop_front();
    return stored(at, length);
  }

  void continue_at(std::uint64_t skip, std::uint64_t frame) {
    const Bytes body = messages_.back().body;
    if (body.size() < 16 || little_endian<std::uint64_t>(body, 8) < frame) {
      damaged("a header continuation is too short");
    }
    blocks_.emplace_back(little_endian<std::uint64_t>(body, 0) + skip,
                         little_endian<std::uint64_t>(body, 8) - frame);
  }

  internal::InputFile& file_;
  std::uint64_t base_;
  const std::string& place_;
  std::deque<std::pair<std::uint64_t, std::uint64_t>> blocks_;
  std::vector<HeaderMessage> messages_;
};

// Product of the extents of a dataspace message; nothing if it is not simple or not whole.
std::optional<std::uint64_t> space_elements(Bytes space) {
  if (space.size() < 4) return std::nullopt;
  const std::size_t rank = static_cast<std::size_t>(space[1]);
  const std::size_t start = space[0] == std::byte{1} ? 8 : 4;
  if (space.size() < start || rank > (space.size() - start) / 8) return std::nullopt;
  std::uint64_t count = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    const auto extent = little_endian<std::uint64_t>(space, start + 8 * d);
    if (__builtin_mul_overflow(count, extent, &count)) return std::nullopt;
  }
  return count;
}

// True for fixed-point numbers of 8 bytes, little-endian.
bool is_long_integer(Bytes type) {
  return type.size() >= 8 && (type[0] & std::byte{0x0F}) == std::byte{0} &&
         (type[1] & std::byte{1}) == std::byte{0} && little_endian<std::uint32_t>(type, 4) == 8;
}

}  // namespace

std::vector<HeaderMessage> read_object_header(internal::InputFile& file, std::uint64_t base,
                                              std::uint64_t header, const std::string& place) {
  return HeaderReader(file, base, place).read(header);
}

Attributes::Attributes(internal::InputFile& file, std::uint64_t base, std::uint64_t header,
                       const std::string& place)
    : path_(file.path()), place_(place) {
  for (HeaderMessage& message : read_object_header(file, base, header, place)) {
    if (message.type == kAttributeInfoMessage) {
      const std::size_t at =
          message.body.size() > 1 && (message.body[1] & std::byte{1}) != std::byte{0} ? 4 : 2;
      more_elsewhere_ = message.body.size() >= at + 8 &&
                        little_endian<std::uint64_t>(message.body, at) != kNoAddress;
    }
    if (message.type == kAttributeMessage) messages_.push_back(std::move(message));
  }
}

bool Attributes::has(std::string_view name) const { return find(name).has_value(); }

std::optional<std::vector<std::uint64_t>> Attributes::numbers(std::string_view name) const {
  const auto found = find(name);
  if (!found) return std::nullopt;
  const auto count = space_elements(found->space);
  if (!is_long_integer(found->type) || !count || *count > found->data.size() / 8) damaged(name);
  std::vector<std::uint64_t> values(*count);
  if (*count > 0) std::memcpy(values.data(), found->data.data(), *count * sizeof(std::uint64_t));
  return values;
}

void Attributes::damaged(std::string_view name) const {
  throw Error(ErrorCode::kDataLoss, path_, place_,
              "attribute \"" + escape(name) + "\" does not hold 8-byte integers",
              "write the file again");
}

// Versions: 1 pads each part to a multiple of 8, 2 does not, 3 also names a character set.
std::optional<Attributes::Parts> Attributes::parts(Bytes body) const {
  if (body.size() < 9) return std::nullopt;
  const unsigned version = static_cast<unsigned>(body[0]);
  if (version < 1 || version > 3) return std::nullopt;
  std::size_t at = version == 3 ? 9 : 8;
  bool whole = true;
  const auto take = [&](std::size_t field) -> Bytes {
    const std::size_t size = little_endian<std::uint16_t>(body, field);
    const std::size_t padded = version == 1 ? (size + 7) / 8 * 8 : size;
    whole = whole && padded <= body.size() - at;
    if (!whole) return {};
    const Bytes part = body.subspan(at, size);
    at += padded;
    return part;
  };
  Parts out;
  out.name = as_text(take(2));
  out.name = out.name.substr(0, out.name.find('\0'));
  out.type = take(4);
  out.space = take(6);
  if (!whole) return std::nullopt;
  out.data = body.subspan(at);
  return out;
}

std::optional<Attributes::Parts> Attributes::find(std::string_view name) const {
  for (const HeaderMessage& message : messages_) {
    const auto found = parts(message.body);
    if (found && found->name == name) return found;
  }
  return std::nullopt;
}

}  // namespace shardmill::hdf5
