// SPDX-License-Identifier: Apache-2.0
#include "loader/decode/internal/jpeg_progressive.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "loader/decode/internal/inverse_dct.h"
#include "loader/decode/internal/jpeg_bits.h"

namespace shardmill::internal {

namespace {

using namespace jpeg;
using Entry = HuffmanTable::Entry;

constexpr std::uint8_t kTables = 0xc4;  // DHT
constexpr std::uint8_t kStartOfImage = 0xd8;
constexpr std::uint8_t kStartOfScan = 0xda;
constexpr std::uint8_t kQuantisation = 0xdb;
constexpr std::uint8_t kRestartInterval = 0xdd;
constexpr std::uint8_t kFrame0 = 0xc0;
constexpr std::uint8_t kFrame2 = 0xc2;
constexpr std::uint32_t kLast = 63;

// One scan's header.
struct Pass {
  std::size_t count = 0;  // of components
  std::size_t component[3] = {};
  const HuffmanTable* dc[3] = {};
  const HuffmanTable* ac = nullptr;
  std::uint32_t first = 0, last = 0;  // coefficients, in zigzag order
  std::uint32_t high = 0, low = 0;    // bits known before and after
};

struct Raw {
  std::uint8_t counts[17] = {};
  std::uint8_t symbols[256] = {};
  bool known = false;
};

SHARDMILL_INLINE std::uint32_t take(JpegBits& in, std::uint32_t bits) {
  if (in.count < bits) refill(in);
  const auto value = static_cast<std::uint32_t>(in.bits >> (64 - bits));
  drop(in, bits);
  return value;
}

// How many blocks, this one included, have nothing more.
SHARDMILL_INLINE std::uint32_t run_of(JpegBits& in, std::uint32_t entry) {
  const auto bits = static_cast<std::uint32_t>(Entry::value(entry));
  return bits == 0 ? 1 : (1U << bits) + take(in, bits);
}

// A block's coefficients in zigzag order, and which of them are not zero.
struct Block {
  std::int16_t* coefficients;
  std::uint64_t* mask;
};

SHARDMILL_INLINE bool first_ac(JpegBits& in, const Pass& pass, Block block, std::uint32_t& run) {
  if (run > 0) {
    --run;
    return true;
  }
  std::uint64_t mask = *block.mask;
  std::uint32_t k = pass.first - 1;
  while (true) {
    refill(in);
    for (int i = 0; i < kSteps; ++i) {
      const std::uint32_t entry = next_entry(in, *pass.ac);
      if (entry == 0) return false;
      if (Entry::advance(entry) == HuffmanTable::kEndOfBlock) {
        run = run_of(in, entry) - 1;
        *block.mask = mask;
        return true;
      }
      k += Entry::advance(entry);
      if (k > pass.last) return false;
      const std::int32_t value = Entry::value(entry);
      block.coefficients[k] =
          static_cast<std::int16_t>(static_cast<std::uint32_t>(value) << pass.low);
      mask |= std::uint64_t{value != 0} << k;
      if (k == pass.last) {
        *block.mask = mask;
        return true;
      }
    }
  }
}

// One more bit of a coefficient that is not zero. Without a branch: bits are as good as random.
SHARDMILL_INLINE void refine(JpegBits& in, std::int16_t& coefficient, std::int32_t bit) {
  const auto taken = static_cast<std::int32_t>(take(in, 1));
  const std::int32_t value = coefficient;
  const std::int32_t sign = value >> 31;
  const std::int32_t step = ((bit ^ sign) - sign) & -taken;
  coefficient = static_cast<std::int16_t>((value & bit) != 0 ? value : value + step);
}

SHARDMILL_INLINE void refine_all(JpegBits& in, std::int16_t* coefficients, std::uint64_t mask,
                                 std::int32_t bit) {
  for (; mask != 0; mask &= mask - 1) refine(in, coefficients[std::countr_zero(mask)], bit);
}

SHARDMILL_INLINE bool refine_ac(JpegBits& in, const Pass& pass, Block block, std::uint32_t& run) {
  const std::int32_t bit = 1 << pass.low;
  const std::uint64_t range =
      (~std::uint64_t{0} >> (kLast - pass.last)) & (~std::uint64_t{0} << pass.first);
  const std::uint64_t known = *block.mask & range;
  std::uint64_t left = known;  // known ones that have not got their bit yet
  std::uint64_t added = 0;
  std::uint32_t k = pass.first;
  while (run == 0 && k <= pass.last) {
    refill(in);
    const std::uint32_t entry = next_entry(in, *pass.ac);
    if (entry == 0) return false;
    if (Entry::advance(entry) == HuffmanTable::kEndOfBlock) {
      run = run_of(in, entry);
      break;
    }
    const std::int32_t value = Entry::value(entry);
    if (value < -1 || value > 1) return false;
    // Over that many zeros, and all known ones between them, to the next zero.
    std::uint32_t zeros = Entry::advance(entry) - 1;
    while (left != 0) {
      const auto next = static_cast<std::uint32_t>(std::countr_zero(left));
      if (k + zeros < next) break;
      zeros -= next - k;
      k = next + 1;
      refine(in, block.coefficients[next], bit);
      left &= left - 1;
    }
    k += zeros;
    if (k > pass.last) {
      if (value != 0) return false;
      break;
    }
    if (value != 0) {
      block.coefficients[k] = static_cast<std::int16_t>(value * bit);
      added |= std::uint64_t{1} << k;
    }
    ++k;
  }
  if (run > 0) {
    refine_all(in, block.coefficients, left, bit);
    --run;
  } else if (left != 0) {
    return false;
  }
  *block.mask |= added;
  return true;
}

SHARDMILL_INLINE bool read_dc(JpegBits& in, const Pass& pass, std::size_t i, std::int16_t* block,
                              std::uint32_t* predicted) {
  if (pass.high > 0) {
    if (take(in, 1) != 0) block[0] = static_cast<std::int16_t>(block[0] | 1 << pass.low);
    return true;
  }
  refill(in);
  const std::uint32_t entry = next_entry(in, *pass.dc[i]);
  predicted[i] += static_cast<std::uint32_t>(Entry::value(entry));
  block[0] = static_cast<std::int16_t>(predicted[i] << pass.low);
  return entry != 0;
}

class Decoder {
 public:
  Decoder(const Scan& scan, const ProgressiveScans& scans) : scan_(scan), scans_(scans) {
    for (auto& of_component : known_) std::fill_n(of_component, 64, -1);
  }

  bool parse();
  void transform() const;

 private:
  std::size_t blocks_across(std::size_t c) const {
    return std::size_t{scan_.columns} * scan_.components[c].across;
  }
  Block block(std::size_t c, std::size_t x, std::size_t y) const {
    const std::size_t number = y * blocks_across(c) + x;
    return {scans_.coefficients[c] + number * 64, scans_.masks[c] + number};
  }
  bool read_tables(const std::uint8_t* body, std::size_t size);
  bool read_pass(const std::uint8_t* body, std::size_t size, Pass& pass);
  bool advance_bits(const Pass& pass);
  bool run_pass(const Pass& pass);
  bool read_mcu(JpegBits& in, const Pass& pass, std::uint32_t column, std::uint32_t row);
  template <class ReadBlock>
  bool run_blocks(const Pass& pass, const ReadBlock& read);
  bool is_needed(const Pass& pass) const;
  bool skip_pass();
  bool is_complete() const;

  const Scan& scan_;
  const ProgressiveScans& scans_;
  JpegBits in_{nullptr, nullptr};
  Raw raw_[8];
  int known_[3][64];  // lowest bit of each coefficient that has come; -1: none
  std::uint32_t restart_interval_ = 0;
  std::uint32_t predicted_[3] = {};
  std::uint32_t run_ = 0;  // blocks that have nothing more in this pass
};

bool Decoder::read_tables(const std::uint8_t* body, std::size_t size) {
  while (size > 0) {
    if (size < 17 || (body[0] & 0xec) != 0) return false;
    Raw& raw = raw_[(body[0] >> 4) * 4 + (body[0] & 3)];
    std::size_t total = 0;
    for (std::size_t i = 1; i <= 16; ++i) total += raw.counts[i] = body[i];
    if (total > 256 || size - 17 < total) return false;
    std::memset(raw.symbols, 0, sizeof(raw.symbols));
    std::copy_n(body + 17, total, raw.symbols);
    raw.known = true;
    body += 17 + total;
    size -= 17 + total;
  }
  return true;
}

bool Decoder::read_pass(const std::uint8_t* body, std::size_t size, Pass& pass) {
  if (size < 1 || body[0] < 1 || body[0] > scan_.count || size != 4 + 2U * body[0]) return false;
  pass.count = body[0];
  const std::uint8_t* const end = body + 1 + 2 * pass.count;
  pass.first = end[0], pass.last = end[1], pass.high = end[2] >> 4, pass.low = end[2] & 15;
  const bool dc = pass.first == 0;
  if (dc ? pass.last != 0 : pass.count != 1 || pass.last < pass.first || pass.last > kLast) {
    return false;
  }
  if (pass.low > 13 || (pass.high != 0 && pass.high != pass.low + 1)) return false;
  std::size_t next = 0;
  for (std::size_t i = 0; i < pass.count; ++i) {
    const std::uint8_t* const entry = body + 1 + 2 * i;
    std::size_t c = next;
    while (c < scan_.count && scans_.ids[c] != entry[0]) ++c;
    if (c == scan_.count) return false;
    pass.component[i] = c;
    next = c + 1;
    if (dc && pass.high > 0) continue;  // bits without codes
    const std::size_t number = dc ? entry[1] >> 4 : 4U + (entry[1] & 15);
    if (number > 7 || (dc && number > 3) || !raw_[number].known) return false;
    HuffmanTable& table = scans_.tables[number];
    const Raw& raw = raw_[number];
    if (!table.assign(raw.counts, raw.symbols, dc, 9)) return false;
    (dc ? pass.dc[i] : pass.ac) = &table;
  }
  return true;
}

// Every bit must come once, in order.
bool Decoder::advance_bits(const Pass& pass) {
  for (std::size_t i = 0; i < pass.count; ++i) {
    int* const known = known_[pass.component[i]];
    if (pass.first > 0 && known[0] < 0) return false;
    for (std::uint32_t k = pass.first; k <= pass.last; ++k) {
      if (known[k] != (pass.high == 0 ? -1 : static_cast<int>(pass.high))) return false;
      known[k] = static_cast<int>(pass.low);
    }
  }
  return true;
}

bool Decoder::read_mcu(JpegBits& in, const Pass& pass, std::uint32_t column, std::uint32_t row) {
  for (std::size_t i = 0; i < pass.count; ++i) {
    const std::size_t c = pass.component[i];
    const ScanComponent& component = scan_.components[c];
    for (std::uint32_t y = 0; y < component.down; ++y) {
      for (std::uint32_t x = 0; x < component.across; ++x) {
        const Block to = block(c, std::size_t{column} * component.across + x,
                               std::size_t{row} * component.down + y);
        if (!read_dc(in, pass, i, to.coefficients, predicted_)) return false;
      }
    }
  }
  return true;
}

// Calls `read` with the bits and the place of each MCU, or of each block of a component alone.
template <class ReadBlock>
bool Decoder::run_blocks(const Pass& pass, const ReadBlock& read) {
  const std::size_t c = pass.component[0];
  const bool alone = pass.count == 1;
  const std::uint32_t columns = alone ? scans_.columns[c] : scan_.columns;
  const std::uint32_t rows = alone ? scans_.rows[c] : scan_.rows;
  JpegBits in = in_;
  std::uint32_t until_restart = restart_interval_;
  std::uint8_t restarts = 0;
  std::fill_n(predicted_, 3, 0U);
  run_ = 0;
  for (std::uint32_t y = 0; y < rows; ++y) {
    for (std::uint32_t x = 0; x < columns; ++x) {
      if (restart_interval_ != 0 && until_restart-- == 0) {
        if (run_ != 0 || !at_marker(in, kRestart0 + restarts)) return false;
        restarts = (restarts + 1) & 7;
        std::fill_n(predicted_, 3, 0U);
        until_restart = restart_interval_ - 1;
      }
      if (!read(in, x, y)) return false;
    }
    if (in.made_up > in.count) return false;
  }
  in_ = in;
  return run_ == 0 && in.count - in.made_up < 8;
}

bool Decoder::run_pass(const Pass& pass) {
  const std::size_t c = pass.component[0];
  if (pass.count > 1) {
    return run_blocks(pass, [&](JpegBits& in, std::uint32_t x, std::uint32_t y) {
      return read_mcu(in, pass, x, y);
    });
  }
  if (pass.first == 0) {
    return run_blocks(pass, [&](JpegBits& in, std::uint32_t x, std::uint32_t y) {
      return read_dc(in, pass, 0, block(c, x, y).coefficients, predicted_);
    });
  }
  if (pass.high == 0) {
    return run_blocks(pass, [&](JpegBits& in, std::uint32_t x, std::uint32_t y) {
      return first_ac(in, pass, block(c, x, y), run_);
    });
  }
  return run_blocks(pass, [&](JpegBits& in, std::uint32_t x, std::uint32_t y) {
    return refine_ac(in, pass, block(c, x, y), run_);
  });
}

bool Decoder::is_needed(const Pass& pass) const {
  const ScanComponent& component = scan_.components[pass.component[0]];
  return pass.first == 0 || (component.needed && component.size > 1);
}

// To the next marker that is none of the scan's own.
bool Decoder::skip_pass() {
  const std::uint8_t* at = in_.at;
  while (in_.end - at >= 2) {
    at = static_cast<const std::uint8_t*>(
        std::memchr(at, kMarker, static_cast<std::size_t>(in_.end - at) - 1));
    if (at == nullptr) return false;
    const bool inside = at[1] == 0 || (at[1] >= kRestart0 && at[1] <= kRestart0 + 7);
    if (!inside && at[1] != kMarker) {
      in_.at = at;
      return true;
    }
    at += inside ? 2 : 1;
  }
  return false;
}

bool Decoder::is_complete() const {
  for (std::size_t c = 0; c < scan_.count; ++c) {
    const ScanComponent& component = scan_.components[c];
    const std::size_t count = component.needed && component.size > 1 ? 64 : 1;
    if (std::any_of(known_[c], known_[c] + count, [](int bit) { return bit != 0; })) return false;
  }
  return true;
}

bool Decoder::parse() {
  in_ = {scan_.begin, scan_.end};
  if (!at_marker(in_, kStartOfImage)) return false;
  std::uint32_t passes = 0;
  while (true) {
    in_.bits = in_.count = 0;
    in_.made_up = 0;
    while (in_.end - in_.at > 2 && in_.at[0] == kMarker && in_.at[1] == kMarker) ++in_.at;
    if (in_.end - in_.at < 2 || in_.at[0] != kMarker) return false;
    const std::uint8_t marker = in_.at[1];
    if (marker == kEndOfImage) return is_complete();
    in_.at += 2;
    const auto left = static_cast<std::size_t>(in_.end - in_.at);
    const std::size_t size = left < 2 ? 0 : in_.at[0] * std::size_t{256} + in_.at[1];
    if (size < 2 || size > left) return false;
    const std::uint8_t* const body = in_.at + 2;
    in_.at += size;
    const bool is_frame = marker >= kFrame0 && marker <= 0xcf && marker != kTables;
    if (is_frame && marker != kFrame2) return false;
    if (marker == kQuantisation && passes > 0) return false;
    if (marker == kTables && !read_tables(body, size - 2)) return false;
    if (marker == kRestartInterval) {
      if (size != 4) return false;
      restart_interval_ = body[0] * 256U + body[1];
    }
    if (marker != kStartOfScan) continue;
    Pass pass;
    if (++passes > scans_.max_scans || !read_pass(body, size - 2, pass)) return false;
    if (!is_needed(pass)) {
      if (!skip_pass()) return false;
    } else if (!advance_bits(pass) || !run_pass(pass)) {
      return false;
    }
  }
}

// All is there: what is needed of it becomes samples.
void Decoder::transform() const {
  const Transforms& transforms = best_transforms();
  alignas(32) std::int16_t pair[128] = {};
  for (std::size_t c = 0; c < scan_.count; ++c) {
    const ScanComponent& component = scan_.components[c];
    if (!component.needed) continue;
    const InverseDct transform = component.size == 8   ? transforms.to_8
                                 : component.size == 4 ? transforms.to_4
                                 : component.size == 2 ? inverse_dct_2
                                                       : inverse_dct_1;
    const std::size_t first_x = std::size_t{scan_.first_column} * component.across;
    const std::size_t last_x = std::size_t{scan_.last_column} * component.across;
    const std::size_t first_y = std::size_t{scan_.first_row} * component.down;
    const std::size_t last_y = std::size_t{scan_.last_row} * component.down;
    for (std::size_t y = first_y; y < last_y; ++y) {
      std::uint8_t* out = component.out + (y - first_y) * component.size * component.stride;
      for (std::size_t x = first_x; x < last_x; x += 2, out += std::size_t{2} * component.size) {
        for (std::size_t i = 0; i < 2 && x + i < last_x; ++i) {
          const std::int16_t* const from = block(c, x + i, y).coefficients;
          for (std::size_t k = 0; k < 64; ++k) {
            pair[64 * i + kBlockOrder[k]] = static_cast<std::int16_t>(from[k] * component.steps[k]);
          }
        }
        transform(pair, out, component.stride);
      }
    }
  }
}

}  // namespace

bool decode_progressive(const Scan& scan, const ProgressiveScans& scans) noexcept {
  Decoder decoder(scan, scans);
  if (!decoder.parse()) return false;
  decoder.transform();
  return true;
}

}  // namespace shardmill::internal
