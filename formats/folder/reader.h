// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/error.h>
#include <shardmill/formats/reader.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
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
  /// Maps large files instead of reading them.
  void peek(std::uint64_t n, SampleView& out) override;
  std::string where(std::uint64_t n, std::string_view field) const override;
  const ShardInfo& info() const noexcept override { return info_; }

 private:
  struct Buffer {
    std::unique_ptr<std::byte[]> bytes;
    std::uint64_t capacity = 0;
  };
  struct Mapping {
    Mapping() = default;
    Mapping(Mapping&& other) noexcept : bytes(std::exchange(other.bytes, {})) {}
    Mapping& operator=(Mapping&&) = delete;
    ~Mapping();
    Bytes bytes;
  };
  internal::Descriptor open_file(const IndexSample& sample, const IndexFile& file,
                                 std::uint64_t& size);
  Bytes read_file(const IndexSample& sample, const IndexFile& file, Buffer& buffer);
  Bytes read_all(int fd, std::uint64_t size, const IndexSample& sample, const IndexFile& file,
                 Buffer& buffer);
  [[noreturn]] void fail(ErrorInfo info, const IndexSample& sample, const IndexFile& file) const;
  void finish(const IndexSample& sample, SampleView& out);
  void add_class(const IndexSample& sample);

  std::string root_;
  Index index_;
  ShardInfo info_;
  internal::Descriptor root_fd_;
  std::vector<Buffer> buffers_;    // one per field of the largest sample so far
  std::vector<Mapping> mappings_;  // of the last peek()
  std::vector<FieldView> fields_;
  std::string class_text_;
  std::string path_;
};

}  // namespace shardmill::folder
