// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/reader.h>

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/hdf5/internal/index.h"
#include "formats/hdf5/internal/scratch.h"
#include "formats/internal/input_file.h"

namespace shardmill::hdf5 {

class LibraryRows;

/// Reads an HDF5 shard: values are lent from the map wherever they lie in one piece, which is
/// nearly everywhere in shardmill's own layout (docs/formats/hdf5.md). The HDF5 library is used
/// only for datasets that the index marks so, and opened when the first of them is read.
class Hdf5Reader final : public Reader {
 public:
  Hdf5Reader(const std::filesystem::path& path, std::span<const std::byte> index, Access access);
  ~Hdf5Reader() override;

  std::uint64_t size() const noexcept override { return index_.samples(); }
  void read(std::uint64_t n, SampleView& out) override;
  void will_need(std::uint64_t n) noexcept override;
  void prefetch(std::uint64_t n) const noexcept override;
  const ShardInfo& info() const noexcept override { return info_; }

  /// Checks that the offsets of every byte-string field begin at 0 and end with its data.
  void check_ends();

 private:
  struct Column {
    std::string_view name;
    const ColumnRecord* record = nullptr;
    ArrayType type;
    std::unique_ptr<LibraryRows> data;
    std::unique_ptr<LibraryRows> offsets;
    std::unique_ptr<LibraryRows> present;
    std::array<char, 24> digits{};  // of a class number
  };
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
  };

  Bytes rows(const ExtentRecord& extent, std::unique_ptr<LibraryRows>& library, std::uint64_t first,
             std::uint64_t count);
  Bytes chunk_rows(const ExtentRecord& extent, std::uint64_t first, std::uint64_t count);
  Range range(Column& column, std::uint64_t n);
  bool present(Column& column, std::uint64_t n);
  FieldView field(Column& column, std::uint64_t n);
  Bytes sequence(Column& column, std::uint64_t n);
  void ask_heap(Column& column, std::uint64_t n) noexcept;
  void ask(const ExtentRecord& extent, std::uint64_t first, std::uint64_t count) noexcept;
  LibraryRows& library(std::unique_ptr<LibraryRows>& slot, const ExtentRecord& extent,
                       bool sequence);
  [[noreturn]] void damaged(const Column& column, std::uint64_t n, const std::string& cause) const;
  std::string place(const Column* column, std::uint64_t n) const;

  internal::InputFile file_;
  IndexView index_;
  std::vector<Column> columns_;  // in our layout the first holds the keys
  ShardInfo info_;
  Scratch scratch_;
  std::array<char, 12> number_{};
  std::string_view key_;
  std::vector<FieldView> fields_;
};

}  // namespace shardmill::hdf5
