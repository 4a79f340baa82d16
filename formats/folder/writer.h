// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/writer.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "formats/internal/descriptor.h"
#include "formats/internal/key_set.h"
#include "formats/internal/member_name.h"

namespace shardmill::folder {

/// Writes each field as a file KEY.FIELD, first below PATH/.shardmill-partial; close() moves
/// everything to PATH. PATH may exist, but nothing in it is replaced. Refuses samples whose files
/// readers would find under another key or field, or would not find.
class FolderWriter final : public Writer {
 public:
  explicit FolderWriter(const std::filesystem::path& path);
  ~FolderWriter() override;

  void write(const SampleView& sample) override;
  void close() override;

 private:
  void check_names(const SampleView& sample);
  void check_free(std::string_view key, const std::string& name);
  void make_directories(std::string_view key);
  void write_file(std::string_view key, const internal::MemberValue& member);
  [[noreturn]] void fail(int error, std::string_view key, const std::string& what) const;

  std::filesystem::path path_;
  bool created_ = false;  // PATH was made by this writer
  internal::Descriptor root_fd_;
  internal::Descriptor stage_fd_;
  internal::KeySet keys_;
  std::vector<internal::MemberValue> members_;
  std::vector<std::string> names_;  // of the sample's files, below PATH
  std::string last_directory_;      // made already
  std::string last_free_;           // first part that is known not to exist in PATH
};

}  // namespace shardmill::folder
