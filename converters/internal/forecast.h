// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/convert.h>
#include <shardmill/formats/sample.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace shardmill::internal {

/// Returns about how many bytes of a shard in `format` this sample takes.
std::uint64_t forecast_sample(const std::string& format, const SampleView& sample) noexcept;
/// Returns what a shard with so many bytes of samples takes besides.
std::uint64_t forecast_shard(const std::string& format, std::uint64_t bytes) noexcept;

/// Watches the space of a destination's filesystem.
class SpaceGuard {
 public:
  /// `directory` need not exist: its nearest ancestor that does counts.
  SpaceGuard(const std::filesystem::path& directory, const Amount& reserve);

  /// Throws kResourceExhausted if `forecast` bytes do not fit beside the reserve.
  void check_forecast(std::uint64_t forecast) const;
  /// Throws kResourceExhausted if less than the reserve is free. Looks once in 16 MiB of `bytes`,
  /// which are added up.
  void wrote(std::uint64_t bytes);
  /// Looks now.
  void check() const;

 private:
  struct Space {
    std::uint64_t total = 0;
    std::uint64_t free = 0;
  };
  Space look() const;

  std::filesystem::path directory_;
  Amount reserve_;
  std::uint64_t since_ = 0;
};

}  // namespace shardmill::internal
