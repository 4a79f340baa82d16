// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/loader/options.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "loader/internal/control.h"

namespace shardmill::internal {

/// Where one output lies in a slot.
struct OutputPlace {
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  /// How its values lie.
  enum class Form : std::uint8_t {
    kRows,    ///< Rows of one size, written where they belong.
    kRagged,  ///< Values in an arena; the seal packs them, and their offsets stand at `offset`.
    kPadded,  ///< Values in an arena; the seal packs them as rows as large as the batch needs.
    kList,    ///< Values in an arena, where they stay; begins, then lengths at `offset`.
  };
  Form form = Form::kRows;
  std::uint64_t offset = 0;       ///< Of the rows, or of the offsets or begins.
  std::uint64_t row_bytes = 0;    ///< kRows.
  int arena = -1;                 ///< Its number among those with an arena.
  std::uint64_t sizes = kNone;    ///< Offset of the true extents, `extents` int64 a row.
  std::uint32_t extents = 0;      ///< How many of a value's extents may vary.
  std::uint64_t present = kNone;  ///< Offset of the presence mask, a byte a row.
};

/// A slot's memory: first all rows of one size, offsets, extents and masks (`fixed_bytes`,
/// page-locked on request), then per output with values of any size an arena that rows append to
/// in any order and an area where the seal packs them in row order, then the samples' keys.
struct SlotMemory {
  std::byte* base = nullptr;
  const SlotLayout* layout = nullptr;

  std::byte* row(const OutputPlace& place, std::size_t row) const noexcept {
    return base + place.offset + row * place.row_bytes;
  }
  std::int64_t* offsets(const OutputPlace& place) const noexcept {
    return reinterpret_cast<std::int64_t*>(base + place.offset);
  }
  /// kList: the values' lengths.
  std::int64_t* lengths(const OutputPlace& place) const noexcept {
    return offsets(place) + layout->batch_size;
  }
  /// Returns the true extents of a row's value. REQUIRES: the output has them.
  std::int64_t* sizes(const OutputPlace& place, std::size_t row) const noexcept {
    return reinterpret_cast<std::int64_t*>(base + place.sizes) + row * place.extents;
  }
  std::uint8_t* present(const OutputPlace& place) const noexcept {
    return reinterpret_cast<std::uint8_t*>(base + place.present);
  }
  std::byte* arena(int arena) const noexcept { return area(2 * arena); }
  std::byte* packed(int arena) const noexcept { return area(2 * arena + 1); }
  /// Where the rows' keys lie in key_text(); length 0 until a row's sample was read.
  ArenaRange* key_ranges() const noexcept {
    return reinterpret_cast<ArenaRange*>(area(2 * static_cast<int>(layout->arenas)));
  }
  char* key_text() const noexcept {
    return reinterpret_cast<char*>(key_ranges() + layout->batch_size);
  }
  std::string_view key(std::size_t row) const noexcept {
    const ArenaRange range = key_ranges()[row];
    return {key_text() + range.begin, range.length};
  }

 private:
  std::byte* area(int number) const noexcept {
    return base + layout->fixed_bytes + static_cast<std::uint64_t>(number) * layout->arena_bytes;
  }
};

/// Longest key that a batch tells; longer ones are cut.
inline constexpr std::uint64_t kMaxKeyBytes = 1023;
/// Room for a row's key, on average, and its range: each may be written again after a death, and
/// again for each substitute.
inline constexpr std::uint64_t kKeyBytesOfRow = 2 * kMaxKeyBytes + sizeof(ArenaRange);

/// True if the output's values lie behind each other, or in a list view.
inline bool is_ragged(const Output& output) noexcept {
  return output.kind == OutputKind::kBytes ||
         (output.kind == OutputKind::kTokens && output.row.shape.empty());
}

/// Returns the type of the rows that a padded output's batch has: as large as the largest of
/// `rows` extents needs.
ArrayType padded_row(const Output& output, const OutputPlace& place, const SlotMemory& memory,
                     std::size_t rows);

/// Places `outputs` (resolved) one behind the other, each at a page's beginning.
std::vector<OutputPlace> place_outputs(std::span<const Output> outputs, std::size_t batch_size);

/// Computes the sizes of slots so that `slots` of them fit into `file_bytes`. Throws
/// kResourceExhausted if the fixed parts alone do not.
SlotLayout make_layout(std::span<const Output> outputs, std::size_t batch_size, std::size_t slots,
                       std::uint64_t file_bytes);

}  // namespace shardmill::internal
