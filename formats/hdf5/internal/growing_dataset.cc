// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/growing_dataset.h"

#include <algorithm>

#include "formats/hdf5/internal/element_type.h"

namespace shardmill::hdf5 {

namespace {

constexpr std::uint64_t kBufferBytes = 1 << 20;

void require(bool succeeded, const std::string& name, const char* what) {
  if (succeeded) return;
  throw Error(ErrorCode::kInternal, {}, "dataset \"" + escape(name) + "\"",
              std::string(what) + ": " + last_error());
}

}  // namespace

GrowingDataset::GrowingDataset(std::string name, ArrayType row, std::uint64_t known_rows)
    : name_(std::move(name)),
      row_(std::move(row)),
      row_bytes_(row_.bytes()),
      known_rows_(known_rows),
      chunk_rows_(row_bytes_ == 0 ? 1 : std::max<std::uint64_t>(1, kBufferBytes / row_bytes_)),
      full_(row_bytes_ == 0 ? kBufferBytes : chunk_rows_ * row_bytes_) {}

void GrowingDataset::append(hid_t file, Bytes rows) {
  rows_ += row_bytes_ == 0 ? 1 : rows.size() / row_bytes_;
  while (!rows.empty()) {
    const auto part = std::min<std::uint64_t>(rows.size(), full_ - buffer_.size());
    buffer_.insert(buffer_.end(), rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(part));
    rows = rows.subspan(part);
    if (buffer_.size() == full_) flush(file);
  }
}

void GrowingDataset::append_zeros(hid_t file) {
  ++rows_;
  for (std::uint64_t left = row_bytes_; left > 0;) {
    const std::uint64_t part = std::min(left, full_ - buffer_.size());
    buffer_.resize(buffer_.size() + part);
    left -= part;
    if (buffer_.size() == full_) flush(file);
  }
}

DatasetHandle GrowingDataset::finish(hid_t file) {
  if (!dataset_) create(file, rows_, false);
  if (!buffer_.empty()) {
    if (chunked_) {
      write_chunk();
    } else {
      write_rows(buffer_.size() / row_bytes_);
    }
  }
  std::vector<std::byte>().swap(buffer_);
  return std::move(dataset_);
}

void GrowingDataset::create(hid_t file, std::uint64_t rows, bool chunked) {
  chunked_ = chunked;
  type_ = storage_type(row_.dtype);
  std::vector<hsize_t> dims{rows};
  dims.insert(dims.end(), row_.shape.begin(), row_.shape.end());
  std::vector<hsize_t> limit = dims;
  const PropertyHandle list(H5Pcreate(H5P_DATASET_CREATE));
  // Times would make equal input give different bytes; fill values would write everything twice.
  require(list && H5Pset_obj_track_times(list.get(), false) >= 0 &&
              H5Pset_fill_time(list.get(), H5D_FILL_TIME_NEVER) >= 0,
          name_, "cannot set up a dataset");
  if (chunked) {
    limit[0] = H5S_UNLIMITED;
    std::vector<hsize_t> chunk = dims;
    chunk[0] = chunk_rows_;
    require(H5Pset_chunk(list.get(), static_cast<int>(chunk.size()), chunk.data()) >= 0, name_,
            "cannot set up chunks");
  }
  const SpaceHandle space(
      H5Screate_simple(static_cast<int>(dims.size()), dims.data(), limit.data()));
  require(static_cast<bool>(space), name_, "cannot describe its shape");
  dataset_ = DatasetHandle(H5Dcreate2(file, name_.c_str(), type_.get(), space.get(), H5P_DEFAULT,
                                      list.get(), H5P_DEFAULT));
  require(static_cast<bool>(dataset_), name_, "cannot create the dataset");
}

void GrowingDataset::flush(hid_t file) {
  if (!dataset_) create(file, known_rows_, known_rows_ == 0);
  if (chunked_) {
    write_chunk();
  } else {
    write_rows(chunk_rows_);
  }
}

void GrowingDataset::write_chunk() {
  const std::uint64_t count = buffer_.size() / row_bytes_;
  buffer_.resize(full_);  // the last chunk is filled up with zeros
  std::vector<hsize_t> dims{written_ + count};
  dims.insert(dims.end(), row_.shape.begin(), row_.shape.end());
  std::vector<hsize_t> offset(dims.size(), 0);
  offset[0] = written_;
  require(H5Dset_extent(dataset_.get(), dims.data()) >= 0 &&
              H5Dwrite_chunk(dataset_.get(), H5P_DEFAULT, 0, offset.data(), buffer_.size(),
                             buffer_.data()) >= 0,
          name_, "cannot write a chunk");
  written_ += count;
  buffer_.clear();
}

void GrowingDataset::write_rows(std::uint64_t count) {
  std::vector<hsize_t> start(row_.shape.size() + 1, 0);
  start[0] = written_;
  std::vector<hsize_t> extent{count};
  extent.insert(extent.end(), row_.shape.begin(), row_.shape.end());
  const SpaceHandle rows(H5Dget_space(dataset_.get()));
  const SpaceHandle memory(
      H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr));
  require(rows && memory &&
              H5Sselect_hyperslab(rows.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(),
                                  nullptr) >= 0 &&
              H5Dwrite(dataset_.get(), type_.get(), memory.get(), rows.get(), H5P_DEFAULT,
                       buffer_.data()) >= 0,
          name_, "cannot write rows");
  written_ += count;
  buffer_.clear();
}

}  // namespace shardmill::hdf5
