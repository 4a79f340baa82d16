// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/writer.h"

#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "formats/hdf5/internal/attributes.h"
#include "formats/hdf5/internal/index_builder.h"
#include "formats/internal/output_file.h"

namespace shardmill::hdf5 {

namespace {

// Appended chunks then lie in long runs. A shard that fits into the buffers needs no such room.
constexpr hsize_t kMetaBlockBytes = 1 << 20;
constexpr hsize_t kSmallMetaBlockBytes = 2048;
constexpr std::uint64_t kMaxChunkBytes = 0xFFFFFFFFu;

std::string shape_text(const ArrayType& type) {
  std::string text(dtype_name(type.dtype));
  text += " (";
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(type.shape[i]);
  }
  return text + ")";
}

}  // namespace

Hdf5Writer::Hdf5Writer(const std::filesystem::path& path, const WriteOptions& options)
    : path_(path),
      temporary_(internal::temporary_name(path)),
      promised_(options.samples),
      vlen_(options.vlen) {
  keys_.spec.name = kKeyGroup;
  keys_.data.emplace(std::string(kKeyGroup) + "/data", ArrayType{DType::kUInt8, {}}, 0);
  keys_.offsets.push_back(0);
  for (const FieldSpec& spec : options.fields) columns_.push_back(make_column(spec));
  std::sort(columns_.begin(), columns_.end(),
            [](const Column& a, const Column& b) { return a.spec.name < b.spec.name; });
  for (std::size_t i = 1; i < columns_.size(); ++i) {
    if (columns_[i].spec.name == columns_[i - 1].spec.name) {
      throw Error(ErrorCode::kInvalidArgument, path_.string(),
                  "field \"" + escape(columns_[i].spec.name) + "\"", "given twice");
    }
  }
  // The library's file is opened late; whether one can be made here is said at once.
  const int fd = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) throw system_error(errno, path_.string(), "cannot create");
  ::close(fd);
}

Hdf5Writer::~Hdf5Writer() {
  if (!closed_) discard();
}

Hdf5Writer::Column Hdf5Writer::make_column(const FieldSpec& spec) const {
  check_name(spec.name);
  Column column;
  column.spec = spec;
  const std::string place = "field \"" + escape(spec.name) + "\"";
  switch (spec.kind) {
    case FieldKind::kBytes:
      if (vlen_) {
        column.rows.emplace(spec.name, promised_);
        break;
      }
      column.data.emplace(spec.name + "/data", ArrayType{DType::kUInt8, {}}, 0);
      column.offsets.push_back(0);
      break;
    case FieldKind::kClass:
      break;
    case FieldKind::kArray:
      if (spec.array.shape.size() >= H5S_MAX_RANK ||
          (promised_ == 0 && spec.array.bytes() > kMaxChunkBytes)) {
        throw Error(ErrorCode::kUnsupported, path_.string(), place,
                    "arrays of " + shape_text(spec.array) + " are too large for HDF5 chunks");
      }
      if (spec.name == "cls" && spec.array == ArrayType{DType::kInt64, {}}) {
        throw Error(ErrorCode::kUnsupported, path_.string(), place,
                    "int64 numbers called cls are class numbers", "declare the field as a class");
      }
      column.data.emplace(spec.name, spec.array, promised_);
      break;
  }
  return column;
}

void Hdf5Writer::check_name(const std::string& name) const {
  std::string cause;
  if (name.empty()) cause = "a field without a name";
  if (name == "." || name == "..") cause = "this name means a group in HDF5";
  if (name.find('/') != std::string::npos) cause = "a field name with '/'";
  if (name.find('\0') != std::string::npos) cause = "a field name with a NUL byte";
  if (name.starts_with("__")) cause = "names that begin with '__' are reserved";
  if (name.ends_with(kPresentSuffix)) cause = "names that end with '__present' are reserved";
  if (cause.empty()) return;
  throw Error(ErrorCode::kUnsupported, path_.string(), "field \"" + escape(name) + "\"",
              "HDF5 shards cannot hold it: " + cause, "rename the field");
}

void Hdf5Writer::write(const SampleView& sample) {
  SHARDMILL_CHECK(!closed_);
  check_output();
  check_key(sample.key, path_.string());
  if (promised_ != 0 && samples_ == promised_) {
    throw Error(ErrorCode::kInvalidArgument, path_.string(), sample_place(sample.key),
                "more samples than the " + std::to_string(promised_) + " announced");
  }
  for (Column& column : columns_) column.field = nullptr;
  for (const FieldView& field : sample.fields) {
    Column& column = column_of(sample, field);
    if (column.field != nullptr) {
      throw Error(ErrorCode::kInvalidArgument, path_.string(), sample_place(sample.key, field.name),
                  "duplicate field");
    }
    column.field = &field;
    check_value(sample, column);
  }
  for (const Column& column : columns_) {
    if (column.field != nullptr || column.spec.optional) continue;
    throw Error(ErrorCode::kInvalidArgument, path_.string(),
                sample_place(sample.key, column.spec.name), "the sample lacks this field",
                "declare the field as optional");
  }
  // Nothing was changed until here, so a refused sample leaves the shard as it was.
  failed_ = true;
  guarded([&] { append_sample(sample); });
  failed_ = false;
}

// The library's refusals after a failed write are consequences; the cause is what was recorded.
template <typename Work>
void Hdf5Writer::guarded(Work work) {
  const Session session;
  try {
    work();
  } catch (const Error& error) {
    if (status_.error != 0) check_output();
    ErrorInfo info = error.info();
    info.path = path_.string();
    throw Error(std::move(info));
  }
}

void Hdf5Writer::append_sample(const SampleView& sample) {
  append(*keys_.data, as_bytes(sample.key));
  keys_.offsets.push_back(keys_.data->rows());
  for (Column& column : columns_) {
    if (column.field != nullptr) {
      append_value(column);
    } else {
      append_absent(column);
    }
  }
  ++samples_;
  check_output();
}

Hdf5Writer::Column& Hdf5Writer::column_of(const SampleView& sample, const FieldView& field) {
  const auto at =
      std::lower_bound(columns_.begin(), columns_.end(), field.name,
                       [](const Column& c, std::string_view name) { return c.spec.name < name; });
  if (at == columns_.end() || at->spec.name != field.name) {
    throw Error(ErrorCode::kInvalidArgument, path_.string(), sample_place(sample.key, field.name),
                "this field was not declared; HDF5 shards have fixed fields",
                "make samples with other fields a dataset of their own, or convert to tar or lmdb");
  }
  return *at;
}

void Hdf5Writer::check_value(const SampleView& sample, Column& column) const {
  const FieldView& field = *column.field;
  column.header.clear();
  column.bytes = field.bytes;
  switch (column.spec.kind) {
    case FieldKind::kBytes:
      if (field.array != nullptr) column.header = npy_header(*field.array);
      break;
    case FieldKind::kClass: {
      const std::string_view text = as_text(field.bytes);
      const auto end = text.data() + text.size();
      const auto parsed = std::from_chars(text.data(), end, column.number);
      if (field.array == nullptr && parsed.ec == std::errc() && parsed.ptr == end &&
          std::to_string(column.number) == text) {
        break;
      }
      throw Error(ErrorCode::kUnsupported, path_.string(), sample_place(sample.key, field.name),
                  "\"" + escape(text.substr(0, 40)) +
                      "\" is not a class number in its shortest decimal form, which is all that "
                      "int64 can hold",
                  "declare the field as bytes, or rename it");
    }
    case FieldKind::kArray:
      check_array(sample, column);
      break;
  }
}

void Hdf5Writer::check_array(const SampleView& sample, Column& column) const {
  const FieldView& field = *column.field;
  const std::string place = sample_place(sample.key, field.name);
  ArrayType type;
  if (field.array != nullptr) {
    type = *field.array;
    if (column.bytes.size() != type.bytes()) {
      throw Error(ErrorCode::kInvalidArgument, path_.string(), place,
                  "its bytes do not fit its shape");
    }
  } else {
    const NpyView npy = parse_npy(field.bytes, path_.string(), place);
    const bool trailing =
        npy.data.data() + npy.data.size() != field.bytes.data() + field.bytes.size();
    if (!npy.canonical() || trailing) {
      throw Error(ErrorCode::kUnsupported, path_.string(), place,
                  trailing            ? "bytes follow the array"
                  : npy.fortran_order ? "the array is stored in Fortran order"
                                      : "the array is stored big-endian",
                  "store arrays in C order, little-endian, or declare the field as bytes");
    }
    type = npy.type;
    column.bytes = npy.data;
  }
  if (type == column.spec.array) return;
  throw Error(ErrorCode::kInvalidArgument, path_.string(), place,
              "array of " + shape_text(type) + ", declared are " + shape_text(column.spec.array),
              "one HDF5 dataset holds arrays of one type and shape");
}

void Hdf5Writer::append_value(Column& column) {
  if (!column.present.empty()) column.present.push_back(1);
  switch (column.spec.kind) {
    case FieldKind::kClass:
      column.classes.push_back(column.number);
      break;
    case FieldKind::kArray:
      append(*column.data, column.bytes);
      break;
    case FieldKind::kBytes:
      if (column.rows) {
        append(*column.rows, as_bytes(column.header), column.bytes);
        break;
      }
      append(*column.data, as_bytes(column.header));
      append(*column.data, column.bytes);
      column.offsets.push_back(column.data->rows());
      break;
  }
}

void Hdf5Writer::append_absent(Column& column) {
  if (column.present.empty()) column.present.assign(samples_, 1);
  column.present.push_back(0);
  switch (column.spec.kind) {
    case FieldKind::kClass:
      column.classes.push_back(0);
      break;
    case FieldKind::kArray:
      if (column.data->would_write(column.spec.array.bytes())) open_file(false);
      column.data->append_zeros(file_.get());
      break;
    case FieldKind::kBytes:
      if (column.rows) {
        append(*column.rows, {}, {});
      } else {
        column.offsets.push_back(column.data->rows());
      }
      break;
  }
}

void Hdf5Writer::append(GrowingDataset& dataset, Bytes bytes) {
  if (dataset.would_write(bytes.size())) open_file(false);
  dataset.append(file_.get(), bytes);
  check_output();
}

void Hdf5Writer::append(VlenDataset& dataset, Bytes first, Bytes second) {
  if (dataset.would_write(first.size() + second.size())) open_file(false);
  dataset.append(file_.get(), first, second);
  check_output();
}

void Hdf5Writer::open_file(bool small) {
  if (file_) return;
  const PropertyHandle access =
      output_access(status_, small ? kSmallMetaBlockBytes : kMetaBlockBytes);
  file_ = FileHandle(H5Fcreate(temporary_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()));
  check_output();
  if (!file_) {
    throw Error(ErrorCode::kInternal, path_.string(), {},
                "cannot create the HDF5 file: " + last_error());
  }
  const auto make_group = [this](const std::string& name) {
    const GroupHandle group(
        H5Gcreate2(file_.get(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    if (group) return;
    throw Error(ErrorCode::kInternal, path_.string(), "group \"" + escape(name) + "\"",
                "cannot create it: " + last_error());
  };
  make_group(keys_.spec.name);
  for (const Column& column : columns_) {
    if (column.spec.kind == FieldKind::kBytes && !vlen_) make_group(column.spec.name);
  }
}

// See OutputStatus: a full disk shows here, not in what the library returns.
void Hdf5Writer::check_output() const {
  if (status_.error == 0) return;
  throw system_error(
      status_.error, path_.string(), "cannot write",
      status_.error == ENOSPC || status_.error == EDQUOT ? "free space, then run again" : "");
}

void Hdf5Writer::close() {
  SHARDMILL_CHECK(!closed_ && !failed_);
  if (promised_ != 0 && samples_ != promised_) {
    throw Error(ErrorCode::kInvalidArgument, path_.string(), {},
                std::to_string(promised_) + " samples were announced, " + std::to_string(samples_) +
                    " were written");
  }
  failed_ = true;
  guarded([this] { finish(); });
  closed_ = true;
}

void Hdf5Writer::finish() {
  open_file(true);
  finish_column(keys_.spec.name, keys_);
  for (Column& column : columns_) finish_column(column.spec.name, column);
  add_attribute(file_.get(), kVersionAttribute, kLayoutVersion);
  add_attribute(file_.get(), kStructureAttribute, std::array<std::uint64_t, 2>{});
  const bool closed_well = file_.close();
  check_output();
  if (!closed_well) {
    throw Error(ErrorCode::kInternal, {}, {}, "cannot close the HDF5 file: " + last_error());
  }
  write_structure(temporary_, status_);
  check_output();
  internal::publish(temporary_, path_);
}

void Hdf5Writer::discard() noexcept {
  const Session session;
  status_.discard = true;
  keys_.data.reset();
  columns_.clear();
  file_.close();
  unlink(temporary_.c_str());
}

void Hdf5Writer::finish_column(const std::string& name, Column& column) {
  const auto bytes_of = [](const auto& vector) { return std::as_bytes(std::span(vector)); };
  switch (column.spec.kind) {
    case FieldKind::kBytes:
      if (column.rows) {
        column.rows->finish(file_.get());
        break;
      }
      column.data->finish(file_.get());
      finish_vector(name + "/offsets", DType::kUInt64, bytes_of(column.offsets));
      break;
    case FieldKind::kArray:
      column.data->finish(file_.get());
      break;
    case FieldKind::kClass: {
      const DatasetHandle numbers = finish_vector(name, DType::kInt64, bytes_of(column.classes));
      if (name != "cls") add_attribute(numbers.get(), kClassAttribute, 1);
      break;
    }
  }
  check_output();
  if (column.present.empty()) return;
  const bool bytes = column.spec.kind == FieldKind::kBytes && !column.rows;
  finish_vector(bytes ? name + "/present" : name + std::string(kPresentSuffix), DType::kUInt8,
                bytes_of(column.present));
  check_output();
}

DatasetHandle Hdf5Writer::finish_vector(const std::string& name, DType dtype, Bytes bytes) {
  GrowingDataset vector(name, {dtype, {}}, bytes.size() / dtype_size(dtype));
  vector.append(file_.get(), bytes);
  return vector.finish(file_.get());
}

}  // namespace shardmill::hdf5
