// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/heap.h"

#include "formats/hdf5/internal/little_endian.h"

namespace shardmill::hdf5 {

namespace {

constexpr std::uint64_t kHeader = 16;  // of a collection, and of each value in it
constexpr std::uint64_t kNoAddress = ~std::uint64_t{0};

bool inside(std::uint64_t at, std::uint64_t size, std::uint64_t limit) noexcept {
  return size <= limit && at <= limit - size;
}

}  // namespace

HeapReference parse_reference(Bytes row) noexcept {
  return {little_endian<std::uint32_t>(row, 0), little_endian<std::uint64_t>(row, 4),
          little_endian<std::uint32_t>(row, 12)};
}

const char* heap_value(internal::InputFile& file, std::uint64_t base,
                       const HeapReference& reference, Bytes& value) {
  value = {};
  if (reference.size == 0) return nullptr;
  std::uint64_t at = 0;
  if (reference.address == kNoAddress || reference.address == 0 ||
      __builtin_add_overflow(base, reference.address, &at) || !inside(at, kHeader, file.size())) {
    return "it lies outside the file";
  }
  const Bytes head = file.bytes(at, kHeader);
  const auto size = little_endian<std::uint64_t>(head, 8);
  if (as_text(head.first(4)) != "GCOL" || head[4] != std::byte{1}) {
    return "its global heap is damaged";
  }
  if (size < kHeader || !inside(at, size, file.size())) {
    return "its global heap lies outside the file";
  }
  const Bytes heap = file.bytes(at, size);
  for (std::uint64_t i = kHeader; inside(i, kHeader, size);) {
    const auto number = little_endian<std::uint16_t>(heap, i);
    const auto length = little_endian<std::uint64_t>(heap, i + 8);
    // Number 0 is the space that is left.
    if (number == 0) break;
    if (!inside(i + kHeader, length, size)) return "its global heap is damaged";
    if (number == reference.number) {
      if (length < reference.size) return "its global heap holds fewer bytes than it should have";
      value = heap.subspan(i + kHeader, reference.size);
      return nullptr;
    }
    i += kHeader + (length + 7) / 8 * 8;
  }
  return "it is not in its global heap";
}

}  // namespace shardmill::hdf5
