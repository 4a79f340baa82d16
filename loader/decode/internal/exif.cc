// SPDX-License-Identifier: Apache-2.0
#include "loader/decode/internal/exif.h"

#include <cstddef>

namespace shardmill::internal {

namespace {

// Reads numbers of a TIFF block in its byte order; beyond the end they are 0.
class TiffReader {
 public:
  TiffReader(std::string_view bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  std::uint32_t number(std::size_t offset, std::size_t size) const noexcept {
    if (offset > bytes_.size() || size > bytes_.size() - offset) return 0;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t at = offset + (big_endian_ ? i : size - 1 - i);
      value = value << 8 | static_cast<unsigned char>(bytes_[at]);
    }
    return value;
  }

 private:
  std::string_view bytes_;
  bool big_endian_;
};

constexpr std::uint32_t kOrientationTag = 0x0112;
constexpr std::size_t kEntrySize = 12;

}  // namespace

std::uint32_t exif_orientation(Bytes exif) noexcept {
  constexpr std::string_view kMark("Exif\0\0", 6);
  std::string_view text = as_text(exif);
  while (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  if (!text.starts_with("II") && !text.starts_with("MM")) return 1;
  const TiffReader tiff(text, text[0] == 'M');
  if (tiff.number(2, 2) != 42) return 1;
  const std::size_t directory = tiff.number(4, 4);
  const std::size_t entries = tiff.number(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * kEntrySize;
    if (tiff.number(entry, 2) != kOrientationTag) continue;
    const std::uint32_t type = tiff.number(entry + 2, 2);  // 1 byte, 3 short, 4 long
    const std::size_t size = type == 3 ? 2 : type == 4 ? 4 : 1;
    const std::uint32_t value = tiff.number(entry + 8, size);
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

Box stored_box(const Box& shown, Size stored, std::uint32_t orientation) noexcept {
  Box box = shown;
  if (orientation >= 5) box = {shown.top, shown.left, shown.bottom, shown.right};
  const double width = stored.width;
  const double height = stored.height;
  if (from_right(orientation)) box = {width - box.right, box.top, width - box.left, box.bottom};
  if (from_bottom(orientation)) box = {box.left, height - box.bottom, box.right, height - box.top};
  return box;
}

namespace {

template <std::ptrdiff_t kChannels>
void orient(const std::uint8_t* in, Size stored, std::uint32_t orientation, std::uint8_t* out) {
  const Size shown = oriented(stored, orientation);
  const auto row = static_cast<std::ptrdiff_t>(stored.width) * kChannels;
  const std::ptrdiff_t last_column = row - kChannels;
  const std::ptrdiff_t last_row = (static_cast<std::ptrdiff_t>(stored.height) - 1) * row;
  // Where the first shown pixel is stored, and the way from it to the next one right and below.
  struct Walk {
    std::ptrdiff_t start, right, down;
  };
  const Walk walks[] = {
      {0, kChannels, row},                         // 1: as stored
      {last_column, -kChannels, row},              // 2: mirrored
      {last_row + last_column, -kChannels, -row},  // 3: upside down
      {last_row, kChannels, -row},                 // 4: upside down, mirrored
      {0, row, kChannels},                         // 5: transposed
      {last_row, -row, kChannels},                 // 6: quarter turn clockwise
      {last_row + last_column, -row, -kChannels},  // 7: transposed along the other diagonal
      {last_column, row, -kChannels},              // 8: quarter turn counterclockwise
  };
  const Walk walk = walks[(orientation - 1) & 7];
  for (std::uint32_t y = 0; y < shown.height; ++y) {
    const std::uint8_t* from = in + walk.start + static_cast<std::ptrdiff_t>(y) * walk.down;
    for (std::uint32_t x = 0; x < shown.width; ++x, from += walk.right, out += kChannels) {
      for (std::ptrdiff_t c = 0; c < kChannels; ++c) out[c] = from[c];
    }
  }
}

}  // namespace

void orient_pixels(const std::uint8_t* in, std::size_t channels, Size stored,
                   std::uint32_t orientation, std::uint8_t* out) {
  if (channels == 4) {
    orient<4>(in, stored, orientation, out);
  } else {
    orient<3>(in, stored, orientation, out);
  }
}

}  // namespace shardmill::internal
