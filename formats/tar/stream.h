// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/stream.h>

#include <string>
#include <vector>

#include "formats/internal/key_set.h"
#include "formats/tar/internal/sample_rules.h"
#include "formats/tar/internal/tar_input.h"
#include "formats/tar/internal/walk.h"

namespace shardmill::tar {

/// Reads the samples of an archive that comes once, from front to back, by the same rules as
/// TarReader. Keeps one sample in memory.
class TarStream final : public Stream {
 public:
  explicit TarStream(Source& source) : input_(source), walk_(input_), rules_(source.name()) {
    info_.layout = "webdataset";
  }

  bool next(SampleView& out) override;
  const ShardInfo& info() override;

 private:
  struct Value {
    std::string field;
    std::vector<std::byte> bytes;  // used again; `size` of them count
    std::size_t size = 0;
    std::uint64_t header_offset = 0;
  };
  bool find_member();
  void take_member();
  void finish_sample();

  StreamInput input_;
  Walk walk_;
  SampleRules rules_;
  internal::KeySet seen_;
  ShardInfo info_;
  bool waiting_ = false;  // member_ is the first of the next sample
  bool done_ = false;
  Member member_;
  std::string key_;         // of the sample
  std::string member_key_;  // of member_
  std::string member_field_;
  std::string member_name_;
  std::vector<Value> values_;
  std::size_t count_ = 0;  // values that belong to the sample
  std::vector<FieldView> fields_;
};

}  // namespace shardmill::tar
