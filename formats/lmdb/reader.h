// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/reader.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "formats/lmdb/internal/environment.h"
#include "formats/lmdb/internal/index.h"

namespace shardmill::lmdb {

/// Reads the samples of one LMDB environment; layouts in docs/formats/lmdb.md. Fields point into
/// the map (or into one buffer per sample); a read allocates nothing once its buffers have grown.
/// Holds no lock, takes no reader slot, survives a fork.
class LmdbReader final : public Reader {
 public:
  /// `index` as make_index() returned it for the same file; must outlive the reader.
  LmdbReader(const std::filesystem::path& path, std::span<const std::byte> index, Access access);

  std::uint64_t size() const noexcept override { return index_.samples(); }
  void read(std::uint64_t n, SampleView& out) override;
  void will_need(std::uint64_t n) noexcept override;
  const ShardInfo& info() const noexcept override { return info_; }

 private:
  /// Finds the node of sample `n` and checks that it is that sample's.
  Node locate(Environment& environment, std::uint64_t n, Page& page) const;
  [[noreturn]] void damaged(std::uint64_t n, const char* cause) const;

  Environment environment_;
  // Without a map, looking ahead needs buffers of its own: those of the sample read last are lent.
  std::optional<Environment> ahead_;
  Index index_;
  ShardInfo info_;
  std::vector<FieldView> fields_;
};

}  // namespace shardmill::lmdb
