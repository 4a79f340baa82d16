// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/formats/writer.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/hdf5/internal/growing_dataset.h"
#include "formats/hdf5/internal/output_driver.h"
#include "formats/hdf5/internal/vlen_dataset.h"

namespace shardmill::hdf5 {

/// Writes a shard in the layout of docs/formats/hdf5.md. Needs memory for about 1 MiB a field
/// and 8 bytes a sample and field, whatever the shard's size.
class Hdf5Writer final : public Writer {
 public:
  /// Throws kInvalidArgument or kUnsupported for fields that HDF5 cannot hold.
  Hdf5Writer(const std::filesystem::path& path, const WriteOptions& options);
  ~Hdf5Writer() override;

  void write(const SampleView& sample) override;
  void close() override;

 private:
  struct Column {
    FieldSpec spec;
    std::optional<GrowingDataset> data;  // of bytes and arrays
    std::optional<VlenDataset> rows;     // of bytes instead, in the vlen layout
    std::vector<std::uint64_t> offsets;  // of bytes
    std::vector<std::int64_t> classes;
    std::vector<std::uint8_t> present;  // filled from the first absent value on
    // The value of the sample being written, after it was found to fit.
    const FieldView* field = nullptr;
    std::int64_t number = 0;
    std::string header;  // of an array that is stored as .npy bytes
    Bytes bytes;
  };

  Column make_column(const FieldSpec& spec) const;
  void check_name(const std::string& name) const;
  Column& column_of(const SampleView& sample, const FieldView& field);
  void check_value(const SampleView& sample, Column& column) const;
  void check_array(const SampleView& sample, Column& column) const;
  void append_value(Column& column);
  void append_absent(Column& column);
  void append(GrowingDataset& dataset, Bytes bytes);
  void append(VlenDataset& dataset, Bytes first, Bytes second);
  void open_file(bool small);
  void check_output() const;
  void finish_column(const std::string& name, Column& column);
  DatasetHandle finish_vector(const std::string& name, DType dtype, Bytes bytes);
  void append_sample(const SampleView& sample);
  void finish();
  template <typename Work>
  void guarded(Work work);
  void discard() noexcept;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::uint64_t promised_;
  bool vlen_;
  std::uint64_t samples_ = 0;
  OutputStatus status_;
  FileHandle file_;
  Column keys_;
  std::vector<Column> columns_;  // sorted by name
  bool failed_ = false;
  bool closed_ = false;
};

}  // namespace shardmill::hdf5
