// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/reader.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "formats/folder/internal/index.h"
#include "formats/internal/descriptor.h"

namespace shardmill::folder {

/// Reads samples from raw files: each read() opens the sample's files, reads them whole into
/// buffers that are used again, and closes them. This is what training straight from files costs,
/// the baseline of comparisons; will_need() does nothing for the same reason.
class FolderReader final : public Reader {
 public:
  FolderReader(const std::filesystem::path& root, Bytes index);

  std::uint64_t size() const noexcept override { return index_.size(); }
  void read(std::uint64_t n, SampleView& out) override;
  const ShardInfo& info() const noexcept override { return info_; }

 private:
  struct Buffer {
    std::unique_ptr<std::byte[]> bytes;
    std::uint64_t capacity = 0;
  };
  Bytes read_file(const IndexSample& sample, const IndexFile& file, Buffer& buffer);
  void add_class(const IndexSample& sample);

  std::string root_;
  Index index_;
  ShardInfo info_;
  internal::Descriptor root_fd_;
  std::vector<Buffer> buffers_;  // one per field of the largest sample so far
  std::vector<FieldView> fields_;
  std::string class_text_;
  std::string path_;
};

}  // namespace shardmill::folder
