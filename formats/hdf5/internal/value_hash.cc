// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/value_hash.h"

#include <shardmill/formats/digest.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "formats/hdf5/internal/chunk_filters.h"
#include "formats/hdf5/internal/row_type.h"

namespace shardmill::hdf5 {

namespace {

constexpr std::uint64_t kPieceBytes = 8 << 20;
// Shapes are only numbers: sparse datasets can claim more than any disk holds.
constexpr std::uint64_t kMaxHashedBytes = std::uint64_t{1} << 42;
constexpr std::uint64_t kMaxSparseRatio = 1 << 16;

// The base numbers of arrays, enumerations and bit fields are hashed like plain numbers.
TypeHandle memory_type_of(hid_t type) {
  if (const auto element = element_of(type)) return storage_type(element->dtype);
  switch (H5Tget_class(type)) {
    case H5T_ENUM:
      return TypeHandle(H5Tget_native_type(type, H5T_DIR_ASCEND));
    case H5T_INTEGER:
    case H5T_FLOAT:
    case H5T_BITFIELD: {
      TypeHandle copy(H5Tcopy(type));
      H5Tset_order(copy.get(), H5T_ORDER_LE);
      return copy;
    }
    case H5T_STRING:
    case H5T_OPAQUE:
      return TypeHandle(H5Tcopy(type));
    case H5T_ARRAY: {
      const TypeHandle base(H5Tget_super(type));
      if (!element_of(base.get())) return {};
      const TypeHandle memory = memory_type_of(base.get());
      hsize_t dims[H5S_MAX_RANK];
      const int rank = H5Tget_array_dims2(type, dims);
      return rank < 0
                 ? TypeHandle()
                 : TypeHandle(H5Tarray_create2(memory.get(), static_cast<unsigned>(rank), dims));
    }
    case H5T_VLEN: {
      const TypeHandle base(H5Tget_super(type));
      if (!element_of(base.get())) return {};
      return TypeHandle(H5Tvlen_create(memory_type_of(base.get()).get()));
    }
    default:
      return {};
  }
}

class Hasher {
 public:
  Hasher(const OpenDataset& dataset, const std::string& path, const std::string& member)
      : dataset_(dataset), path_(path) {
    stored_ = member.empty() ? TypeHandle(H5Tcopy(dataset.type.get()))
                             : member_type(dataset.type.get(), member);
    memory_ = memory_type_of(stored_.get());
    if (!memory_) return;
    element_bytes_ = H5Tget_size(memory_.get());
    kind_ = H5Tget_class(stored_.get());
    if (!member.empty()) memory_ = member_in_memory({&member, 1}, memory_);
  }

  ValueSum run() {
    if (dataset_.elsewhere()) return {{}, "its values lie in other files and are not hashed"};
    if (!memory_) return {{}, "values of type " + type_name(stored_.get()) + " are not hashed"};
    std::uint64_t total = element_bytes_;
    for (const std::uint64_t extent : dataset_.dims) {
      if (__builtin_mul_overflow(total, extent, &total)) total = kMaxHashedBytes;
    }
    const hsize_t stored = H5Dget_storage_size(dataset_.dataset.get());
    if (total >= kMaxHashedBytes || total / kMaxSparseRatio > stored + kPieceBytes) {
      return {{}, "its " + std::to_string(total) + " bytes are hardly stored and not hashed"};
    }
    if (total > 0) {
      try {
        check_filters(dataset_, path_);
      } catch (const Error& error) {
        return {{}, error.info().cause};
      }
      if (const auto chunks = CheckedChunks::of(dataset_)) {
        chunks->check_rows(dataset_, path_, 0, dataset_.dims[0]);
      }
      read_all();
    }
    return {sha_.hex(), {}};
  }

 private:
  void read_all() {
    if (dataset_.dims.empty()) {
      read_piece({}, {}, 1);
      return;
    }
    // Rows of the first dimension that fit a piece; a larger row is cut along the next one.
    std::vector<hsize_t> start(dataset_.dims.size(), 0);
    cut(0, start);
  }

  void cut(std::size_t axis, std::vector<hsize_t>& start) {
    std::uint64_t row = element_bytes_;
    for (std::size_t d = axis + 1; d < dataset_.dims.size(); ++d) row *= dataset_.dims[d];
    std::vector<hsize_t> count(dataset_.dims.begin(), dataset_.dims.end());
    std::fill_n(count.begin(), axis, 1);
    if (row > kPieceBytes && axis + 1 < dataset_.dims.size()) {
      for (start[axis] = 0; start[axis] < dataset_.dims[axis]; ++start[axis]) cut(axis + 1, start);
      start[axis] = 0;
      return;
    }
    const std::uint64_t step = std::max<std::uint64_t>(1, kPieceBytes / row);
    for (start[axis] = 0; start[axis] < dataset_.dims[axis]; start[axis] += step) {
      count[axis] = std::min<std::uint64_t>(step, dataset_.dims[axis] - start[axis]);
      read_piece(start, count, count[axis] * (row / element_bytes_));
    }
    start[axis] = 0;
  }

  void read_piece(const std::vector<hsize_t>& start, const std::vector<hsize_t>& count,
                  std::uint64_t elements) {
    buffer_.assign(elements * element_bytes_, std::byte{0});
    SpaceHandle file_space(H5Dget_space(dataset_.dataset.get()));
    SpaceHandle memory_space(
        start.empty() ? H5Screate(H5S_SCALAR)
                      : H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr));
    if ((!start.empty() && H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(),
                                               nullptr, count.data(), nullptr) < 0) ||
        H5Dread(dataset_.dataset.get(), memory_.get(), memory_space.get(), file_space.get(),
                H5P_DEFAULT, buffer_.data()) < 0) {
      fail_reading(path_, dataset_.place(), "cannot read its values");
    }
    if (kind_ != H5T_STRING && kind_ != H5T_VLEN) {
      sha_.update(buffer_);
      return;
    }
    for (std::uint64_t i = 0; i < elements; ++i) {
      const std::byte* at = buffer_.data() + i * element_bytes_;
      kind_ == H5T_STRING ? add_string(at) : add_sequence(at);
    }
    if (H5Tdetect_class(memory_.get(), H5T_VLEN) > 0 || variable()) {
      H5Dvlen_reclaim(memory_.get(), memory_space.get(), H5P_DEFAULT, buffer_.data());
    }
  }

  // Strings are joined by NUL, without the padding of fixed-length ones.
  void add_string(const std::byte* at) {
    std::string_view text;
    if (variable()) {
      const char* pointer = nullptr;
      std::memcpy(&pointer, at, sizeof pointer);
      if (pointer != nullptr) text = pointer;
    } else {
      text = {reinterpret_cast<const char*>(at), element_bytes_};
      const bool space_padded = H5Tget_strpad(stored_.get()) == H5T_STR_SPACEPAD;
      const char pad = space_padded ? ' ' : '\0';
      if (H5Tget_strpad(stored_.get()) == H5T_STR_NULLTERM) {
        text = text.substr(0, text.find('\0'));
      }
      while (!text.empty() && text.back() == pad) text.remove_suffix(1);
    }
    if (std::exchange(any_, true)) sha_.update(as_bytes(std::string_view("\0", 1)));
    sha_.update(as_bytes(text));
  }

  // Sequences follow each other.
  void add_sequence(const std::byte* at) {
    hvl_t sequence{};
    std::memcpy(&sequence, at, sizeof sequence);
    if (sequence.len == 0) return;
    const TypeHandle base(H5Tget_super(stored_.get()));
    const std::size_t bytes = sequence.len * H5Tget_size(memory_type_of(base.get()).get());
    sha_.update({static_cast<const std::byte*>(sequence.p), bytes});
  }

  bool variable() const { return kind_ == H5T_STRING && H5Tis_variable_str(stored_.get()) > 0; }

  const OpenDataset& dataset_;
  const std::string& path_;
  TypeHandle stored_;  // in the file: of the dataset or of the member
  TypeHandle memory_;
  std::uint64_t element_bytes_ = 0;
  H5T_class_t kind_ = H5T_NO_CLASS;
  bool any_ = false;
  Sha256 sha_;
  std::vector<std::byte> buffer_;
};

}  // namespace

ValueSum hash_values(const OpenDataset& dataset, const std::string& path,
                     const std::string& member) {
  return Hasher(dataset, path, member).run();
}

}  // namespace shardmill::hdf5
