// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/array.h>
#include <shardmill/formats/error.h>

#include <array>
#include <fstream>

#include "converters/sources/source_options.h"
#include "converters/sources/table_source.h"
#include "formats/internal/input_file.h"

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::size_t kMostHead = 1 << 16;  // of an .npy header

std::string beginning(const fs::path& path, std::size_t bytes) {
  std::ifstream in(path, std::ios::binary);
  std::string head(bytes, '\0');
  in.read(head.data(), static_cast<std::streamsize>(bytes));
  head.resize(static_cast<std::size_t>(in.gcount()));
  return head;
}

std::optional<DType> idx_type(unsigned code) {
  switch (code) {
    case 0x08:
      return DType::kUInt8;
    case 0x09:
      return DType::kInt8;
    case 0x0B:
      return DType::kInt16;
    case 0x0C:
      return DType::kInt32;
    case 0x0D:
      return DType::kFloat32;
    case 0x0E:
      return DType::kFloat64;
    default:
      return std::nullopt;
  }
}

struct ArrayFile {
  ArrayType type;
  std::uint64_t offset = 0;
  bool big_endian = false;
  bool idx = false;
};

std::optional<ArrayFile> parse_idx(const std::string& head) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(head[i]); };
  if (head.size() < 8 || byte(0) != 0 || byte(1) != 0 || byte(3) == 0 || byte(3) > 8) return {};
  const auto dtype = idx_type(byte(2));
  if (!dtype || head.size() < 4 + 4 * std::size_t{byte(3)}) return {};
  ArrayFile file{{*dtype, {}}, 4 + 4 * std::uint64_t{byte(3)}, dtype_size(*dtype) > 1, true};
  for (std::size_t d = 0; d < byte(3); ++d) {
    std::uint64_t size = 0;
    for (std::size_t i = 0; i < 4; ++i) size = size << 8 | byte(4 + 4 * d + i);
    file.type.shape.push_back(size);
  }
  return file;
}

ArrayFile parse_file(const fs::path& path) {
  InputFile input(path, Access::kAuto);
  ArrayFile file;
  if (beginning(path, kNpyMagic.size()) == kNpyMagic) {
    const Bytes bytes = input.bytes(0, input.size());
    const NpyView npy = parse_npy(bytes, path.string(), {});
    if (npy.fortran_order && npy.type.shape.size() > 1) {
      throw Error(ErrorCode::kUnsupported, path.string(), {}, "the array is in Fortran order",
                  "save numpy.ascontiguousarray(array)");
    }
    file = {npy.type, static_cast<std::uint64_t>(npy.data.data() - bytes.data()), npy.big_endian,
            false};
  } else if (const auto idx = parse_idx(beginning(path, kMostHead))) {
    file = *idx;
  }
  if (file.type.shape.empty()) {
    throw Error(ErrorCode::kUnsupported, path.string(), {},
                "a single number cannot be a list of samples", "give an array of samples");
  }
  if (input.size() < file.offset || input.size() - file.offset < file.type.bytes()) {
    throw Error(ErrorCode::kDataLoss, path.string(), {},
                "has " + std::to_string(input.size()) + " bytes, its header says " +
                    std::to_string(file.offset + file.type.bytes()),
                "copy it again");
  }
  return file;
}

bool is_integer(DType dtype) {
  return dtype != DType::kFloat16 && dtype != DType::kFloat32 && dtype != DType::kFloat64 &&
         dtype != DType::kBool && dtype != DType::kComplex64 && dtype != DType::kComplex128;
}

}  // namespace

bool is_array_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  const std::string head = beginning(path, kMostHead);
  if (head.starts_with(kNpyMagic)) return true;
  const auto idx = parse_idx(head);
  return idx && fs::file_size(path, error) == idx->offset + idx->type.bytes();
}

SourcePtr array_source(const std::vector<std::string>& paths) {
  Table table;
  table.name = paths.front();
  for (const std::string& given : paths) {
    const fs::path path = fs::absolute(given);
    ArrayFile file = parse_file(path);
    const std::uint64_t rows = file.type.shape.front();
    if (table.columns.empty()) table.size = rows;
    if (rows != table.size) {
      throw Error(ErrorCode::kInvalidArgument, given, {},
                  "has " + std::to_string(rows) + " rows, " + paths.front() + " has " +
                      std::to_string(table.size),
                  "give arrays of equal first dimension, or convert them one by one");
    }
    file.type.shape.erase(file.type.shape.begin());
    TableColumn column;
    column.kind = TableColumn::Kind::kRows;
    column.file = path;
    column.offset = file.offset;
    column.row = file.type;
    column.big_endian = file.big_endian;
    const std::string stem = path.stem().string();
    const bool scalar = column.row.shape.empty() && is_integer(column.row.dtype);
    column.label = scalar && (file.idx || stem == "cls");
    column.field = column.label ? "cls" : file.idx ? "image" : stem;
    table.columns.push_back(std::move(column));
    table.paths.push_back(path);
  }
  if (table.size == 0) {
    throw Error(ErrorCode::kNotFound, paths.front(), {}, "holds no samples", "give other arrays");
  }
  return table_source(table);
}

}  // namespace shardmill::internal
