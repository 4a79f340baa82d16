// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/lzf.h"

#include <hdf5.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace shardmill::hdf5 {

namespace {

constexpr std::size_t kChunkBytesAt = 2;  // in the filter's values: size of a whole chunk
constexpr std::size_t kMaxChunk = std::size_t{1} << 32;

// Called by the library with a buffer that it allocated and wants replaced.
std::size_t lzf_filter(unsigned flags, std::size_t count, const unsigned* values, std::size_t size,
                       std::size_t* capacity, void** buffer) {
  if ((flags & H5Z_FLAG_REVERSE) == 0) return 0;  // is never written
  std::size_t room = count > kChunkBytesAt ? values[kChunkBytesAt] : 0;
  if (room == 0) room = *capacity;
  // Some writers state no size, or that of another chunk.
  for (; room <= kMaxChunk; room *= 2) {
    auto* out = static_cast<std::byte*>(H5allocate_memory(room, false));
    if (out == nullptr) return 0;
    const std::span in(static_cast<const std::byte*>(*buffer), size);
    const std::size_t got = lzf_decompress(in, {out, room});
    if (got > 0) {
      H5free_memory(*buffer);
      *buffer = out;
      *capacity = room;
      return got;
    }
    H5free_memory(out);
    // LZF makes at most 264 bytes of three.
    if (room / 100 > size) return 0;
  }
  return 0;
}

}  // namespace

std::size_t lzf_decompress(std::span<const std::byte> in, std::span<std::byte> out) noexcept {
  std::size_t from = 0;
  std::size_t to = 0;
  while (from < in.size()) {
    const auto control = static_cast<std::size_t>(in[from++]);
    if (control < 32) {  // that many literal bytes, and one more
      const std::size_t length = control + 1;
      if (length > in.size() - from || length > out.size() - to) return 0;
      std::memcpy(out.data() + to, in.data() + from, length);
      from += length;
      to += length;
      continue;
    }
    std::size_t length = control >> 5;
    if (length == 7) {
      if (from == in.size()) return 0;
      length += static_cast<std::size_t>(in[from++]);
    }
    length += 2;
    if (from == in.size()) return 0;
    const std::size_t back = ((control & 0x1F) << 8 | static_cast<std::size_t>(in[from++])) + 1;
    if (back > to || length > out.size() - to) return 0;
    // Byte by byte: what is copied may be what this copy writes.
    for (std::size_t i = 0; i < length; ++i, ++to) out[to] = out[to - back];
  }
  return to;
}

void register_lzf() noexcept {
  if (H5Zfilter_avail(kLzfFilter) > 0) return;
  H5Z_class2_t filter{};
  filter.version = H5Z_CLASS_T_VERS;
  filter.id = kLzfFilter;
  filter.encoder_present = 0;
  filter.decoder_present = 1;
  filter.name = "lzf";
  filter.filter = lzf_filter;
  H5Zregister(&filter);
}

}  // namespace shardmill::hdf5
