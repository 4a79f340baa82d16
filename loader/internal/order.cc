// SPDX-License-Identifier: Apache-2.0
#include "loader/internal/order.h"

namespace shardmill::internal {

EpochOrder::EpochOrder(Shuffle shuffle, std::uint64_t samples, std::uint64_t seed,
                       std::uint64_t epoch) noexcept
    : shuffle_(shuffle), permutation_(samples, mix_bits(seed) ^ mix_bits(~epoch)) {}

}  // namespace shardmill::internal
