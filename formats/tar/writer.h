// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/writer.h>

#include <filesystem>
#include <string>
#include <vector>

#include "formats/internal/key_set.h"
#include "formats/internal/member_name.h"
#include "formats/internal/output_file.h"

namespace shardmill::tar {

/// Writes an archive as docs/formats/tar.md describes. Refuses samples that readers would find
/// under another key or field, or would not find, and keys that were written before.
class TarWriter final : public Writer {
 public:
  explicit TarWriter(const std::filesystem::path& path) : path_(path.string()), file_(path) {}

  void write(const SampleView& sample) override;
  void close() override;

 private:
  void pad(std::uint64_t boundary);

  std::string path_;
  internal::OutputFile file_;
  internal::KeySet keys_;
  std::vector<internal::MemberValue> members_;
  std::string name_;
  std::string header_;
};

}  // namespace shardmill::tar
