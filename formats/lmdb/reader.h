// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/reader.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "formats/lmdb/internal/datum.h"
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
  /// Finds entry `entry`, which sample `n` needs.
  Node locate(Environment& environment, std::uint64_t n, std::uint64_t entry, Page& page) const;
  /// Finds the entry of sample `n` and checks that it is that sample's.
  Node locate_sample(Environment& environment, std::uint64_t n, Page& page) const;
  /// Finds `WORD-…` of sample `n`, which is mostly entry `guess`; false if there is none.
  bool locate_text(Environment& environment, std::string_view word, std::uint64_t n,
                   std::uint64_t guess, Page& page, Node& node) const;
  void read_datum(std::uint64_t n, Bytes value);
  void read_text(std::uint64_t n, SampleView& out);
  const ArrayType* array_type(DType dtype, std::vector<std::uint64_t> shape);
  [[noreturn]] void damaged(std::uint64_t n, const char* cause) const;

  Environment environment_;
  // Without a map, looking ahead needs buffers of its own: those of the sample read last are lent.
  std::optional<Environment> ahead_;
  Index index_;
  ShardInfo info_;
  std::vector<FieldView> fields_;
  Datum datum_;
  std::vector<std::byte> pixels_;
  std::array<char, 16> label_{};
  std::map<std::vector<std::uint64_t>, std::unique_ptr<ArrayType>> types_;  // live with the reader
};

}  // namespace shardmill::lmdb
