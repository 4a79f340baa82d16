// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/reader.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "formats/internal/input_file.h"
#include "formats/tar/internal/header.h"
#include "formats/tar/internal/index.h"

namespace shardmill::tar {

/// Reads samples of an archive in any order through its index; lends values from the map. Before
/// a value is lent, the header block in front of it is compared with the index, so that an index
/// made of another file is an error, never wrong bytes. See docs/formats/tar.md.
class TarReader final : public Reader {
 public:
  TarReader(const std::filesystem::path& path, Bytes index, Access access);

  std::uint64_t size() const noexcept override { return index_.size(); }
  void read(std::uint64_t n, SampleView& out) override;
  void will_need(std::uint64_t n) noexcept override;
  std::string where(std::uint64_t n, std::string_view field) const override;
  const ShardInfo& info() const noexcept override { return info_; }

 private:
  Bytes value(std::uint64_t n, const IndexMember& member);
  bool is_header_of(std::uint64_t n, const IndexMember& member, const HeaderView& header) const;
  [[noreturn]] void stale(std::string place, const std::string& cause) const;

  internal::InputFile file_;
  Index index_;
  ShardInfo info_;
  std::vector<FieldView> fields_;
};

}  // namespace shardmill::tar
