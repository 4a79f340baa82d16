// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>
#include <shardmill/loader/system/ranks.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace shardmill {

namespace {

struct Launcher {
  const char* rank;
  const char* world_size;
};

constexpr std::array kLaunchers = {
    Launcher{"RANK", "WORLD_SIZE"},
    Launcher{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    Launcher{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
};

int parse(const char* name, std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw Error(ErrorCode::kInvalidArgument, {}, std::string("environment variable ") + name,
                "is \"" + escape(text) + "\", not a number",
                "unset it, or give rank and world size as options");
  }
  return value;
}

}  // namespace

RankInfo detect_rank() {
  for (const Launcher& launcher : kLaunchers) {
    const char* const rank = std::getenv(launcher.rank);
    const char* const size = std::getenv(launcher.world_size);
    if (rank == nullptr || size == nullptr) continue;
    RankInfo found{parse(launcher.rank, rank), parse(launcher.world_size, size),
                   std::string(launcher.rank) + ", " + launcher.world_size};
    if (found.world_size < 1 || found.rank < 0 || found.rank >= found.world_size) {
      throw Error(ErrorCode::kInvalidArgument, {}, "environment variables " + found.source,
                  "rank " + std::to_string(found.rank) + " is not one of " +
                      std::to_string(found.world_size) + " ranks",
                  "unset them, or give rank and world size as options");
    }
    return found;
  }
  return {};
}

}  // namespace shardmill
