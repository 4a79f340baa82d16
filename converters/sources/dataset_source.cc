// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>

#include "converters/sources/pack_source.h"
#include "converters/sources/pair_source.h"
#include "converters/sources/sample_source.h"
#include "converters/sources/table_source.h"
#include "formats/internal/shard_path.h"

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

class DatasetSampleReader : public SampleReader {
 public:
  explicit DatasetSampleReader(const Dataset& dataset) : reader_(dataset) {}
  void read(std::uint64_t n, SampleView& out) override { reader_.read(n, out); }
  void peek(std::uint64_t n, SampleView& out) override { reader_.peek(n, out); }
  void will_need(std::uint64_t n) noexcept override {
    if (n < reader_.size()) reader_.will_need(n);
  }
  fs::path file_of(std::uint64_t n) override {
    constexpr std::string_view kFile = "file ";
    SampleView sample;
    reader_.peek(n, sample);
    // The image names the sample, where there is one.
    for (const bool image : {true, false}) {
      for (const FieldView& field : sample.fields) {
        if (image && !is_image_field(field.name)) continue;
        const std::string where = reader_.where(n, field.name);
        if (!where.starts_with(kFile)) continue;
        const Dataset& dataset = reader_.dataset();
        return dataset.shards()[dataset.shard_of(n)].path / where.substr(kFile.size());
      }
    }
    return {};
  }

 private:
  DatasetReader reader_;
};

class DatasetSource : public SampleSource {
 public:
  explicit DatasetSource(Dataset dataset) : dataset_(std::move(dataset)) {}
  std::uint64_t size() const override { return dataset_.size(); }
  std::string name() const override { return dataset_.spec(); }
  std::vector<std::string> classes() const override { return dataset_.classes(); }
  std::vector<std::string> warnings() const override { return dataset_.info().warnings; }
  std::string path_of(std::uint64_t n) const override {
    return dataset_.shards()[dataset_.shard_of(n)].path.string();
  }
  std::string place_of(std::uint64_t n) const override {
    const DatasetShard& shard = dataset_.shards()[dataset_.shard_of(n)];
    return "sample " + std::to_string(n - shard.first) + " of " + escape(shard.path.string());
  }
  std::vector<fs::path> paths() const override {
    std::vector<fs::path> paths;
    for (const DatasetPart& part : dataset_.parts()) {
      for (const DatasetShard& shard : part.shards) paths.push_back(file_of_shard(shard.path));
    }
    return paths;
  }
  std::unique_ptr<SampleReader> open() const override {
    return std::make_unique<DatasetSampleReader>(dataset_);
  }
  std::string_view kind() const override { return "dataset"; }
  std::vector<std::byte> flat() const override {
    const auto bytes = dataset_.flat();
    return {bytes.begin(), bytes.end()};
  }

 private:
  Dataset dataset_;
};

}  // namespace

SourcePtr dataset_source(Dataset dataset) {
  return std::make_shared<DatasetSource>(std::move(dataset));
}

SourcePtr attach_dataset_source(Bytes flat) {
  return std::make_shared<DatasetSource>(Dataset::attach(flat));
}

SourcePtr attach_source(std::string_view kind, Bytes flat) {
  if (kind == "dataset") return attach_dataset_source(flat);
  if (kind == "table") return attach_table_source(flat);
  if (kind == "pair") return attach_pair_source(flat);
  if (kind == "pack") return attach_pack_source(flat);
  throw Error(ErrorCode::kDataLoss, {}, {}, "the plan has a source of an unknown kind",
              "it was made by another version: convert again with --force");
}

}  // namespace shardmill::internal
