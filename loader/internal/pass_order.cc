// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/pass_order.h"

#include <algorithm>

namespace shardmill::internal {

namespace {

constexpr std::uint64_t kLastWindow = 0xA54FF53A5F1D36F1;  // a key of its own, any constant

std::uint64_t blocks_of(const ShuffleSettings& settings, std::uint64_t items) {
  return (items + settings.block_size - 1) / settings.block_size;
}

}  // namespace

PassOrder::PassOrder(const ShuffleSettings& settings, std::uint64_t items, std::uint64_t key,
                     std::uint64_t lanes)
    : settings_(settings),
      items_(items),
      key_(key),
      lanes_(lanes),
      permutation_(settings.shuffle == Shuffle::kBlock ? blocks_of(settings, items) : items, key) {
  if (settings.shuffle != Shuffle::kBlock) return;
  blocks_ = blocks_of(settings, items);
  const std::uint64_t window_blocks = std::min(lanes_ * settings_.block_window, blocks_ + 1);
  span_ = window_blocks * settings_.block_size;
  // The last window takes up to two windows' worth, with the short block among them.
  full_windows_ = blocks_ / window_blocks;
  if (full_windows_ > 0) --full_windows_;
}

std::uint64_t PassOrder::operator()(std::uint64_t position) const {
  switch (settings_.shuffle) {
    case Shuffle::kNone:
      return position;
    case Shuffle::kFull:
      return permutation_(position);
    case Shuffle::kBlock:
      break;
  }
  const std::uint64_t first = full_windows_ * span_;
  if (position < first) return in_window(position);
  if (window_ != full_windows_) {
    window_ = full_windows_;
    window_lanes_.assign(1, Permutation(items_ - first, mix_bits(key_ ^ kLastWindow)));
  }
  const std::uint64_t mixed = window_lanes_.front()(position - first);
  const std::uint64_t place = first / settings_.block_size + mixed / settings_.block_size;
  return block(place) * settings_.block_size + mixed % settings_.block_size;
}

std::uint64_t PassOrder::in_window(std::uint64_t position) const {
  const std::uint64_t window = position / span_;
  if (window_ != window) {
    window_ = window;
    window_lanes_.clear();
    for (std::uint64_t lane = 0; lane < lanes_; ++lane) {
      window_lanes_.emplace_back(settings_.block_window * settings_.block_size,
                                 mix_bits(key_ ^ mix_bits(window * lanes_ + lane + 1)));
    }
  }
  const std::uint64_t offset = position % span_;
  const std::uint64_t lane = offset % lanes_;
  const std::uint64_t mixed = window_lanes_[lane](offset / lanes_);
  const std::uint64_t place = (window * lanes_ + lane) * settings_.block_window;
  return block(place + mixed / settings_.block_size) * settings_.block_size +
         mixed % settings_.block_size;
}

// The block at a place of the block order, the short one swapped to the end.
std::uint64_t PassOrder::block(std::uint64_t place) const noexcept {
  if (items_ % settings_.block_size == 0) return permutation_(place);
  const std::uint64_t shorter = blocks_ - 1;
  if (place == blocks_ - 1) return shorter;
  const std::uint64_t found = permutation_(place);
  return found == shorter ? permutation_(blocks_ - 1) : found;
}

}  // namespace shardmill::internal
