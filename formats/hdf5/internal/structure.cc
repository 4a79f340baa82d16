// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/structure.h"

#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <new>

namespace shardmill::hdf5 {

namespace {

constexpr std::uint64_t kPieceBytes = 1 << 20;

struct StateDeleter {
  void operator()(XXH3_state_t* state) const noexcept { XXH3_freeState(state); }
};

class StructureHasher {
 public:
  StructureHasher(const IndexBuilder& index, internal::InputFile& file)
      : index_(index), file_(file), state_(XXH3_createState()) {
    if (state_ == nullptr) throw std::bad_alloc();
    XXH3_64bits_reset(state_.get());
  }

  std::uint64_t hash() {
    for (const ColumnRecord& column : index_.columns) add(column);
    return XXH3_64bits_digest(state_.get());
  }

 private:
  void add(const void* bytes, std::size_t size) { XXH3_64bits_update(state_.get(), bytes, size); }
  void add(std::uint64_t value) { add(&value, sizeof value); }

  void add(const ColumnRecord& column) {
    add(index_.text.data() + column.name_at, column.name_size);
    add("", 1);
    add(static_cast<std::uint64_t>(column.kind));
    add(column.dtype);
    add(column.rank);
    add(index_.words.data() + column.shape_at, column.rank * sizeof(std::uint64_t));
    for (const ExtentRecord* extent : {&column.data, &column.offsets, &column.present}) {
      add_place(*extent);
    }
    if (column.kind == ColumnKind::kSequence) add_values(column.data);  // references
    add_values(column.offsets);
    add_values(column.present);
  }

  void add_place(const ExtentRecord& extent) {
    add(static_cast<std::uint64_t>(extent.storage));
    if (extent.storage == Storage::kNone) return;
    add(extent.rows);
    if (extent.storage == Storage::kContiguous) add(extent.at);
    if (extent.storage != Storage::kChunked) return;
    add(extent.chunk_rows);
    const std::uint64_t chunks =
        extent.rows / extent.chunk_rows + (extent.rows % extent.chunk_rows != 0);
    add(index_.words.data() + extent.at, chunks * sizeof(std::uint64_t));
  }

  void add_values(const ExtentRecord& extent) {
    const std::uint64_t total = extent.rows * extent.row_bytes;
    if (extent.storage == Storage::kContiguous) add_piece(extent.at, total);
    if (extent.storage != Storage::kChunked) return;
    const std::uint64_t chunk = extent.chunk_rows * extent.row_bytes;
    for (std::uint64_t done = 0, i = extent.at; done < total; done += chunk, ++i) {
      add_piece(index_.words[i], std::min(chunk, total - done));
    }
  }

  void add_piece(std::uint64_t at, std::uint64_t size) {
    while (size > 0) {
      file_.release();
      const Bytes piece = file_.bytes(at, std::min(size, kPieceBytes));
      add(piece.data(), piece.size());
      at += piece.size();
      size -= piece.size();
    }
  }

  const IndexBuilder& index_;
  internal::InputFile& file_;
  std::unique_ptr<XXH3_state_t, StateDeleter> state_;
};

}  // namespace

std::uint64_t structure_hash(const IndexBuilder& index, internal::InputFile& file) {
  return StructureHasher(index, file).hash();
}

}  // namespace shardmill::hdf5
