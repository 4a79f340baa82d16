// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/index.h"

#include <shardmill/formats/error.h>

#include <array>
#include <cstring>
#include <type_traits>

#include "formats/hdf5/internal/row_type.h"

namespace shardmill::hdf5 {

namespace {

constexpr std::array<char, 8> kMagic = {'S', 'M', 'H', '5', 'I', 'D', 'X', '2'};

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint64_t file_size = 0;
  std::uint64_t samples = 0;
  Layout layout = Layout::kShardmill;
  std::uint64_t columns = 0;
  std::uint64_t words = 0;
  std::uint64_t text = 0;
  std::uint64_t warnings_at = 0;  // pairs (at, size) of text, in words
  std::uint64_t warnings_count = 0;
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) % 8 == 0);
static_assert(std::is_trivially_copyable_v<ColumnRecord> && sizeof(ColumnRecord) % 8 == 0);

// True if [at, at + count) lies in [0, limit).
bool inside(std::uint64_t at, std::uint64_t count, std::uint64_t limit) noexcept {
  return count <= limit && at <= limit - count;
}

bool product(std::uint64_t a, std::uint64_t b, std::uint64_t& out) noexcept {
  return !__builtin_mul_overflow(a, b, &out);
}

class Checker {
 public:
  Checker(std::span<const std::uint64_t> words, std::uint64_t text, std::uint64_t file_size)
      : words_(words), text_(text), file_size_(file_size) {}

  bool column(const ColumnRecord& record, std::uint64_t samples) const {
    if (!inside(record.name_at, record.name_size, text_)) return false;
    if (record.kind > ColumnKind::kNumberSequence) return false;
    if (record.dtype > static_cast<std::uint64_t>(DType::kComplex128)) return false;
    if (!inside(record.shape_at, record.rank, words_.size())) return false;
    if (!extent(record.data) || !extent(record.offsets) || !extent(record.present)) return false;
    if (record.present.storage != Storage::kNone &&
        (record.present.rows != samples || record.present.row_bytes != 1)) {
      return false;
    }
    switch (record.kind) {
      case ColumnKind::kBytes:
        return record.data.row_bytes == 1 && record.offsets.row_bytes == 8 &&
               record.offsets.rows == samples + 1 && record.data.storage != Storage::kNone &&
               record.offsets.storage != Storage::kNone;
      case ColumnKind::kClass:
        return record.data.row_bytes == 8 && record.data.rows == samples &&
               record.data.storage != Storage::kNone;
      case ColumnKind::kArray:
        return record.data.rows == samples && record.data.row_bytes == type(record).bytes() &&
               record.data.storage != Storage::kNone;
      case ColumnKind::kSequence:
      case ColumnKind::kText:
        return record.data.rows == samples && record.data.storage != Storage::kNone &&
               (record.data.storage == Storage::kLibrary ||
                record.data.row_bytes == kReferenceBytes);
      case ColumnKind::kFixedText:
        return record.data.rows == samples && record.data.storage != Storage::kNone &&
               record.dtype <= static_cast<std::uint64_t>(Padding::kSpaces);
      case ColumnKind::kNumberSequence:
        return record.data.rows == samples && record.data.storage == Storage::kLibrary;
    }
    return false;
  }

 private:
  ArrayType type(const ColumnRecord& record) const {
    const auto shape = words_.subspan(record.shape_at, record.rank);
    return {static_cast<DType>(record.dtype), {shape.begin(), shape.end()}};
  }

  bool extent(const ExtentRecord& record) const {
    if (!inside(record.path_at, record.path_size, text_)) return false;
    std::uint64_t bytes = 0;
    switch (record.storage) {
      case Storage::kNone:
        return true;
      case Storage::kContiguous:
        return product(record.rows, record.row_bytes, bytes) &&
               inside(record.at, bytes, file_size_);
      case Storage::kChunked:
        // The chunks' addresses are checked when they are used.
        return record.chunk_rows > 0 && product(record.chunk_rows, record.row_bytes, bytes) &&
               product(record.rows, record.row_bytes, bytes) &&
               inside(record.at,
                      record.rows / record.chunk_rows + (record.rows % record.chunk_rows != 0),
                      words_.size());
      case Storage::kLibrary:
        return product(record.rows, record.row_bytes, bytes);
    }
    return false;
  }

  std::span<const std::uint64_t> words_;
  std::uint64_t text_;
  std::uint64_t file_size_;
};

std::byte* put(std::byte* out, const void* bytes, std::size_t size) {
  if (size > 0) std::memcpy(out, bytes, size);
  return out + size;
}

}  // namespace

std::uint64_t IndexBuilder::add_text(std::string_view value) {
  const std::uint64_t at = text.size();
  text += value;
  return at;
}

std::vector<std::byte> IndexBuilder::flat() const {
  IndexBuilder all = *this;
  Header header;
  header.file_size = file_size;
  header.samples = samples;
  header.layout = layout;
  header.columns = columns.size();
  header.warnings_at = words.size();
  header.warnings_count = warnings.size();
  for (const std::string& warning : warnings) {
    all.words.push_back(all.add_text(warning));
    all.words.push_back(warning.size());
  }
  header.words = all.words.size();
  header.text = all.text.size();
  std::vector<std::byte> out(sizeof header + columns.size() * sizeof(ColumnRecord) +
                             all.words.size() * sizeof(std::uint64_t) + all.text.size());
  std::byte* at = put(out.data(), &header, sizeof header);
  at = put(at, columns.data(), columns.size() * sizeof(ColumnRecord));
  at = put(at, all.words.data(), all.words.size() * sizeof(std::uint64_t));
  put(at, all.text.data(), all.text.size());
  return out;
}

IndexView::IndexView(std::span<const std::byte> flat, const std::string& path,
                     std::uint64_t file_size) {
  const auto damaged = [&path](const std::string& cause) {
    return Error(ErrorCode::kDataLoss, path, "index", cause, "build the index again");
  };
  Header header;
  if (flat.size() < sizeof header) throw damaged("index is cut off");
  SHARDMILL_CHECK(reinterpret_cast<std::uintptr_t>(flat.data()) % 8 == 0);
  std::memcpy(&header, flat.data(), sizeof header);
  if (header.magic != kMagic) throw damaged("not an HDF5 index of this version");
  if (header.file_size != file_size) {
    throw damaged("the file has " + std::to_string(file_size) + " bytes, its index was made for " +
                  std::to_string(header.file_size));
  }
  const std::uint64_t room = flat.size() - sizeof header;
  if (header.columns > room / sizeof(ColumnRecord)) throw damaged("index is cut off");
  const std::uint64_t columns = header.columns * sizeof(ColumnRecord);
  if (header.words > (room - columns) / 8) throw damaged("index is cut off");
  if (header.text != room - columns - header.words * 8) throw damaged("index is cut off");
  const std::byte* at = flat.data() + sizeof header;
  columns_ = {reinterpret_cast<const ColumnRecord*>(at), header.columns};
  words_ = {reinterpret_cast<const std::uint64_t*>(at + columns), header.words};
  text_ = {reinterpret_cast<const char*>(at + columns + header.words * 8), header.text};
  samples_ = header.samples;
  layout_ = header.layout;
  warnings_at_ = header.warnings_at;
  warnings_count_ = header.warnings_count;

  const Checker checker(words_, text_.size(), file_size);
  bool good = layout_ <= Layout::kArrays && warnings_count_ <= words_.size() / 2 &&
              inside(warnings_at_, warnings_count_ * 2, words_.size()) && !columns_.empty();
  for (const ColumnRecord& column : columns_) good = good && checker.column(column, samples_);
  for (std::uint64_t i = 0; good && i < warnings_count_; ++i) {
    good = inside(words_[warnings_at_ + 2 * i], words_[warnings_at_ + 2 * i + 1], text_.size());
  }
  if (!good) throw damaged("the index contradicts itself or the file's length");
}

std::vector<std::string> IndexView::warnings() const {
  std::vector<std::string> out;
  for (std::uint64_t i = 0; i < warnings_count_; ++i) {
    out.emplace_back(text(words_[warnings_at_ + 2 * i], words_[warnings_at_ + 2 * i + 1]));
  }
  return out;
}

}  // namespace shardmill::hdf5
