// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/reader.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "formats/hdf5/internal/heap.h"
#include "formats/hdf5/internal/library_rows.h"
#include "formats/hdf5/internal/little_endian.h"

namespace shardmill::hdf5 {

Hdf5Reader::Hdf5Reader(const std::filesystem::path& path, std::span<const std::byte> index,
                       Access access)
    : file_(path, access), index_(index, file_.path(), file_.size()) {
  for (const ColumnRecord& record : index_.columns()) {
    Column column;
    column.name = index_.text(record.name_at, record.name_size);
    column.record = &record;
    const auto shape = index_.words().subspan(record.shape_at, record.rank);
    column.type = {static_cast<DType>(record.dtype), {shape.begin(), shape.end()}};
    columns_.push_back(std::move(column));
  }
  info_.layout = index_.layout() == Layout::kShardmill ? "shardmill" : "arrays";
  info_.warnings = index_.warnings();
  fields_.reserve(columns_.size());
}

Hdf5Reader::~Hdf5Reader() = default;

void Hdf5Reader::read(std::uint64_t n, SampleView& out) {
  SHARDMILL_CHECK(n < size());
  file_.release();
  scratch_.release();
  fields_.clear();
  std::size_t first = 0;
  key_ = {};
  if (index_.layout() == Layout::kShardmill) {
    key_ = as_text(field(columns_[first++], n).bytes);
    if (key_.empty()) damaged(columns_[0], n, "its key is empty");
  } else {
    const std::string digits = std::to_string(n);
    if (digits.size() > number_.size()) damaged(columns_[0], n, "row number out of range");
    std::fill(number_.begin(), number_.end(), '0');
    std::copy(digits.begin(), digits.end(), number_.end() - static_cast<long>(digits.size()));
    key_ = {number_.data(), number_.size()};
  }
  for (; first < columns_.size(); ++first) {
    Column& column = columns_[first];
    if (present(column, n)) fields_.push_back(field(column, n));
  }
  out.key = key_;
  out.fields = fields_;
}

void Hdf5Reader::will_need(std::uint64_t n) noexcept {
  if (n >= size()) return;
  for (Column& column : columns_) {
    if (column.record->data.storage == Storage::kLibrary) continue;
    if (column.record->kind == ColumnKind::kSequence || column.record->kind == ColumnKind::kText) {
      ask_heap(column, n);
      continue;
    }
    if (column.record->kind != ColumnKind::kBytes) {
      ask(column.record->data, n, 1);
      continue;
    }
    if (column.record->offsets.storage == Storage::kLibrary) continue;
    try {
      const Range value = range(column, n);
      ask(column.record->data, value.begin, value.size);
    } catch (...) {
      // read() will say what is wrong with this sample.
    }
  }
}

void Hdf5Reader::prefetch(std::uint64_t n) const noexcept {
  for (const Column& column : columns_) {
    const bool bytes = column.record->kind == ColumnKind::kBytes;
    const ExtentRecord& rows = bytes ? column.record->offsets : column.record->data;
    if (rows.storage != Storage::kContiguous) continue;
    file_.prefetch(rows.at + n * rows.row_bytes, rows.row_bytes);
  }
}

void Hdf5Reader::check_ends() {
  for (Column& column : columns_) {
    if (column.record->kind != ColumnKind::kBytes) continue;
    file_.release();
    scratch_.release();
    const auto number = [&](std::uint64_t i) {
      return little_endian<std::uint64_t>(rows(column.record->offsets, column.offsets, i, 1), 0);
    };
    if (number(0) == 0 && number(size()) == column.record->data.rows) continue;
    throw Error(ErrorCode::kDataLoss, file_.path(), "field \"" + escape(column.name) + "\"",
                "its offsets do not cover its data", "copy or convert the file again");
  }
}

Bytes Hdf5Reader::rows(const ExtentRecord& extent, std::unique_ptr<LibraryRows>& slot,
                       std::uint64_t first, std::uint64_t count) {
  if (count == 0 || extent.row_bytes == 0) return {};
  switch (extent.storage) {
    case Storage::kContiguous:
      return file_.bytes(extent.at + first * extent.row_bytes, count * extent.row_bytes);
    case Storage::kChunked:
      return chunk_rows(extent, first, count);
    case Storage::kLibrary:
      return library(slot, extent, false).read(first, count, scratch_);
    case Storage::kNone:
      break;
  }
  return {};
}

// Chunks were appended one after the other, so neighbours are mostly adjacent in the file and
// rows that cross them can still be lent; only where they are not are the pieces gathered.
Bytes Hdf5Reader::chunk_rows(const ExtentRecord& extent, std::uint64_t first, std::uint64_t count) {
  const std::uint64_t chunk_bytes = extent.chunk_rows * extent.row_bytes;
  const std::uint64_t total = count * extent.row_bytes;
  const std::uint64_t begin = first % extent.chunk_rows * extent.row_bytes;
  const std::uint64_t chunk = first / extent.chunk_rows;
  const std::uint64_t* addresses = index_.words().data() + extent.at;
  std::uint64_t adjacent = chunk_bytes - begin;
  for (std::uint64_t i = chunk; adjacent < total; ++i, adjacent += chunk_bytes) {
    if (addresses[i + 1] != addresses[i] + chunk_bytes) break;
  }
  if (adjacent >= total) return file_.bytes(addresses[chunk] + begin, total);

  std::byte* out = scratch_.take(total);
  std::uint64_t done = 0;
  for (std::uint64_t i = chunk, skip = begin; done < total; ++i, skip = 0) {
    const std::uint64_t size = std::min(chunk_bytes - skip, total - done);
    const Bytes piece = file_.bytes(addresses[i] + skip, size);
    std::memcpy(out + done, piece.data(), size);
    done += size;
  }
  return {out, total};
}

Hdf5Reader::Range Hdf5Reader::range(Column& column, std::uint64_t n) {
  const Bytes pair = rows(column.record->offsets, column.offsets, n, 2);
  const auto begin = little_endian<std::uint64_t>(pair, 0);
  const auto end = little_endian<std::uint64_t>(pair, 8);
  if (begin > end || end > column.record->data.rows) {
    damaged(column, n,
            "its offsets " + std::to_string(begin) + " to " + std::to_string(end) +
                " lie outside the " + std::to_string(column.record->data.rows) + " bytes of data");
  }
  return {begin, end - begin};
}

bool Hdf5Reader::present(Column& column, std::uint64_t n) {
  if (column.record->present.storage == Storage::kNone) return true;
  const auto flag = rows(column.record->present, column.present, n, 1)[0];
  if (flag > std::byte{1}) damaged(column, n, "its mark in 'present' is neither 0 nor 1");
  if (flag == std::byte{1}) return true;
  if (column.record->kind == ColumnKind::kBytes && range(column, n).size != 0) {
    damaged(column, n, "it has data although it is marked as absent");
  }
  return false;
}

FieldView Hdf5Reader::field(Column& column, std::uint64_t n) {
  const ExtentRecord& data = column.record->data;
  switch (column.record->kind) {
    case ColumnKind::kBytes: {
      const Range value = range(column, n);
      return {column.name, rows(data, column.data, value.begin, value.size), nullptr};
    }
    case ColumnKind::kClass: {
      const auto number = little_endian<std::int64_t>(rows(data, column.data, n, 1), 0);
      const auto end = std::to_chars(column.digits.begin(), column.digits.end(), number).ptr;
      const auto size = static_cast<std::size_t>(end - column.digits.begin());
      return {column.name, as_bytes(std::string_view(column.digits.data(), size)), nullptr};
    }
    case ColumnKind::kArray:
      return {column.name, rows(data, column.data, n, 1), &column.type};
    case ColumnKind::kFixedText: {
      const auto padding = static_cast<Padding>(column.record->dtype);
      const std::string_view text = as_text(rows(data, column.data, n, 1));
      return {column.name, as_bytes(without_padding(text, padding)), nullptr};
    }
    case ColumnKind::kSequence:
    case ColumnKind::kNumberSequence:
      return {column.name, sequence(column, n), nullptr};
    case ColumnKind::kText: {
      const std::string_view text = as_text(sequence(column, n));
      return {column.name, as_bytes(text.substr(0, text.find('\0'))), nullptr};
    }
  }
  return {};
}

Bytes Hdf5Reader::sequence(Column& column, std::uint64_t n) {
  const ExtentRecord& data = column.record->data;
  if (data.storage == Storage::kLibrary) {
    return library(column.data, data, true).read_sequence(n, scratch_);
  }
  const HeapReference reference = parse_reference(rows(data, column.data, n, 1));
  Bytes value;
  const char* wrong = heap_value(file_, column.record->heap_base, reference, value);
  if (wrong != nullptr) damaged(column, n, wrong);
  return value;
}

void Hdf5Reader::ask_heap(Column& column, std::uint64_t n) noexcept {
  if (column.record->data.storage == Storage::kLibrary || !file_.mapped()) return;
  try {
    const HeapReference reference = parse_reference(rows(column.record->data, column.data, n, 1));
    if (reference.size > 0) {
      // Large values have a collection of their own, right behind its header.
      file_.will_need(column.record->heap_base + reference.address,
                      reference.size + kHeapHeaderBytes);
    }
  } catch (...) {
    // read() will say what is wrong with this sample.
  }
}

void Hdf5Reader::ask(const ExtentRecord& extent, std::uint64_t first,
                     std::uint64_t count) noexcept {
  if (extent.storage == Storage::kContiguous) {
    file_.will_need(extent.at + first * extent.row_bytes, count * extent.row_bytes);
    return;
  }
  if (extent.storage != Storage::kChunked || count == 0) return;
  const std::uint64_t chunk_bytes = extent.chunk_rows * extent.row_bytes;
  std::uint64_t left = count * extent.row_bytes;
  std::uint64_t skip = first % extent.chunk_rows * extent.row_bytes;
  for (std::uint64_t i = first / extent.chunk_rows; left > 0; ++i, skip = 0) {
    const std::uint64_t size = std::min(chunk_bytes - skip, left);
    file_.will_need(index_.words()[extent.at + i] + skip, size);
    left -= size;
  }
}

LibraryRows& Hdf5Reader::library(std::unique_ptr<LibraryRows>& slot, const ExtentRecord& extent,
                                 bool sequence) {
  if (slot == nullptr) {
    auto rows = std::make_unique<LibraryRows>(
        file_.path(), std::string(index_.text(extent.path_at, extent.path_size)));
    if (rows->is_sequence() != sequence || (!sequence && rows->row_bytes() != extent.row_bytes)) {
      throw Error(ErrorCode::kDataLoss, file_.path(), "index",
                  "the file has other datasets than its index says", "build the index again");
    }
    slot = std::move(rows);
  }
  return *slot;
}

void Hdf5Reader::damaged(const Column& column, std::uint64_t n, const std::string& cause) const {
  throw Error(ErrorCode::kDataLoss, file_.path(), place(&column, n), cause,
              "copy or convert the file again");
}

std::string Hdf5Reader::place(const Column* column, std::uint64_t n) const {
  if (!key_.empty()) return sample_place(key_, column->name);
  return "sample number " + std::to_string(n) + " field \"" + escape(column->name) + "\"";
}

}  // namespace shardmill::hdf5
