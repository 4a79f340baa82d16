// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/writer.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

namespace shardmill::lmdb {

/// Sizes that decide when the writer commits and how it grows; part of what makes equal input
/// give equal bytes, so only tests change them.
struct WriterSizes {
  std::uint64_t first_map_bytes = std::uint64_t{128} << 20;  ///< Doubled whenever it is full.
  std::uint64_t transaction_bytes = std::uint64_t{64} << 20;
};

/// Starts writing the LMDB shard (a directory) that will be called `path`.
std::unique_ptr<Writer> create_writer(const std::filesystem::path& path,
                                      const WriterSizes& sizes = {});

}  // namespace shardmill::lmdb
