// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/vlen_dataset.h"

#include <array>

namespace shardmill::hdf5 {

namespace {

constexpr std::uint64_t kBufferBytes = 1 << 20;
constexpr std::size_t kBufferValues = 4096;
constexpr hsize_t kChunkRows = 4096;  // references of 16 bytes

void require(bool succeeded, const std::string& name, const char* what) {
  if (succeeded) return;
  throw Error(ErrorCode::kInternal, {}, "dataset \"" + escape(name) + "\"",
              std::string(what) + ": " + last_error());
}

}  // namespace

VlenDataset::VlenDataset(std::string name, std::uint64_t known_rows)
    : name_(std::move(name)), known_rows_(known_rows) {}

bool VlenDataset::would_write(std::uint64_t bytes) const noexcept {
  return buffer_.size() + bytes >= kBufferBytes || sizes_.size() + 1 >= kBufferValues;
}

void VlenDataset::append(hid_t file, Bytes first, Bytes second) {
  const bool full = would_write(first.size() + second.size());
  buffer_.insert(buffer_.end(), first.begin(), first.end());
  buffer_.insert(buffer_.end(), second.begin(), second.end());
  sizes_.push_back(first.size() + second.size());
  if (full) flush(file);
}

void VlenDataset::finish(hid_t file) {
  if (!dataset_) create(file, known_rows_ != 0 ? known_rows_ : sizes_.size());
  if (!sizes_.empty()) flush(file);
  dataset_.close();
  std::vector<std::byte>().swap(buffer_);
}

void VlenDataset::create(hid_t file, std::uint64_t rows) {
  const hsize_t dims = rows;
  const hsize_t limit = rows == 0 ? H5S_UNLIMITED : rows;
  type_ = TypeHandle(H5Tvlen_create(H5T_STD_U8LE));
  const PropertyHandle list(H5Pcreate(H5P_DATASET_CREATE));
  // Times would make equal input give different bytes.
  require(type_ && list && H5Pset_obj_track_times(list.get(), false) >= 0, name_,
          "cannot set up a dataset");
  if (rows == 0) {
    require(H5Pset_chunk(list.get(), 1, &kChunkRows) >= 0, name_, "cannot set up chunks");
  }
  const SpaceHandle space(H5Screate_simple(1, &dims, &limit));
  dataset_ = DatasetHandle(H5Dcreate2(file, name_.c_str(), type_.get(), space.get(), H5P_DEFAULT,
                                      list.get(), H5P_DEFAULT));
  require(static_cast<bool>(dataset_), name_, "cannot create the dataset");
}

void VlenDataset::flush(hid_t file) {
  if (!dataset_) create(file, known_rows_);
  const hsize_t count = sizes_.size();
  const hsize_t end = written_ + count;
  if (known_rows_ == 0) {
    // One that was created by finish() has all its rows already.
    const SpaceHandle now(H5Dget_space(dataset_.get()));
    hsize_t rows = 0;
    H5Sget_simple_extent_dims(now.get(), &rows, nullptr);
    require(rows >= end || H5Dset_extent(dataset_.get(), &end) >= 0, name_, "cannot grow");
  }
  std::vector<hvl_t> values;
  std::byte* at = buffer_.data();
  for (const std::uint64_t size : sizes_) {
    values.push_back({size, size == 0 ? nullptr : at});
    at += size;
  }
  const hsize_t start = written_;
  const SpaceHandle rows(H5Dget_space(dataset_.get()));
  const SpaceHandle memory(H5Screate_simple(1, &count, nullptr));
  require(
      rows && memory &&
          H5Sselect_hyperslab(rows.get(), H5S_SELECT_SET, &start, nullptr, &count, nullptr) >= 0 &&
          H5Dwrite(dataset_.get(), type_.get(), memory.get(), rows.get(), H5P_DEFAULT,
                   values.data()) >= 0,
      name_, "cannot write rows");
  written_ = end;
  buffer_.clear();
  sizes_.clear();
}

}  // namespace shardmill::hdf5
