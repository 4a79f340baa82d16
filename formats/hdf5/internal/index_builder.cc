// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/index_builder.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "formats/hdf5/internal/catalog.h"
#include "formats/hdf5/internal/chunk_table.h"
#include "formats/hdf5/internal/object_header.h"
#include "formats/hdf5/internal/row_type.h"
#include "formats/hdf5/internal/sets.h"
#include "formats/hdf5/internal/structure.h"
#include "formats/hdf5/internal/superblock.h"

namespace shardmill::hdf5 {

namespace {

// Comparing with the library needs memory for a whole chunk; larger ones are left to it.
constexpr std::uint64_t kMaxComparedChunk = 64u << 20;
constexpr std::uint64_t kLargeChunk = 1u << 20;  // the library's own cache
constexpr std::ptrdiff_t kMaxMembers = 8;        // compounds in compounds

class Builder {
 public:
  Builder(const std::string& path, const std::string& inner)
      : path_(path),
        inner_(inner),
        bytes_(path, Access::kRead),
        base_(check_superblock(bytes_).base) {
    file_ = open_for_reading(path);
    index_.file_size = bytes_.size();
  }

  IndexBuilder build() {
    root_ = checked(GroupHandle(H5Gopen2(file_.get(), "/", H5P_DEFAULT)), path_, {},
                    "cannot open the root group");
    const Attributes attributes = attributes_of(root_.get(), "root group");
    if (!inner_.empty()) {
      build_foreign();
    } else if (attributes.has(kVersionAttribute)) {
      build_own(attributes);
    } else if (attributes.more_elsewhere() && H5Aexists(root_.get(), kVersionAttribute) > 0) {
      unsupported("root group", "it has more attributes than shardmill reads",
                  "write the file with eight attributes at most, or with libver earliest");
    } else {
      build_foreign();
    }
    return std::move(index_);
  }

 private:
  [[noreturn]] void damaged(const std::string& place, const std::string& cause) const {
    throw Error(ErrorCode::kDataLoss, path_, place, cause, "copy or convert the file again");
  }
  [[noreturn]] void unsupported(const std::string& place, const std::string& cause,
                                const std::string& remedy = {}) const {
    throw Error(ErrorCode::kUnsupported, path_, place, cause, remedy);
  }

  // ---- our layout ----

  void build_own(const Attributes& attributes) {
    index_.layout = Layout::kShardmill;
    check_version(attributes);
    std::vector<std::string> names = link_names(root_.get(), path_);
    if (!std::binary_search(names.begin(), names.end(), kKeyGroup)) {
      damaged({}, "group \"__key__\" is missing");
    }
    add_bytes(std::string(kKeyGroup));
    for (const std::string& name : names) {
      if (name == kKeyGroup) continue;
      if (std::string_view(name).ends_with(kPresentSuffix)) {
        const std::string field = name.substr(0, name.size() - kPresentSuffix.size());
        if (!std::binary_search(names.begin(), names.end(), field)) {
          damaged("dataset \"" + escape(name) + "\"", "the field it belongs to is missing");
        }
        continue;
      }
      add_field(name);
    }
    check_structure(attributes);
  }

  Attributes attributes_of(hid_t object, const std::string& place) {
    H5O_info_t info{};
    if (H5Oget_info(object, &info) < 0) {
      fail_reading(path_, place, "cannot read the object's header");
    }
    return Attributes(bytes_, base_, info.addr, place);
  }

  void check_version(const Attributes& attributes) {
    const auto version = attributes.numbers(kVersionAttribute);
    if (version->size() != 1) damaged("root group", "\"shardmill_version\" is not one number");
    if ((*version)[0] != kLayoutVersion) {
      unsupported(
          "root group",
          "layout version " + std::to_string((*version)[0]) + ", this program knows version 1",
          "use a newer shardmill");
    }
  }

  // HDF5's old metadata has no checksums. Ours says where the writer put everything; it counts
  // as long as the file has the writer's length (other tools may have rewritten the file since).
  void check_structure(const Attributes& attributes) {
    const auto stored = attributes.numbers(kStructureAttribute);
    if (!stored) return;
    if (stored->size() != 2) damaged("root group", "\"shardmill_structure\" is not two numbers");
    if ((*stored)[0] != bytes_.size() || (*stored)[1] == structure_hash(index_, bytes_)) return;
    damaged("root group",
            "the samples do not lie where their writer put them: damaged metadata or offsets");
  }

  void add_field(const std::string& name) {
    H5O_info_t info{};
    H5L_info_t link{};
    if (H5Lget_info(root_.get(), name.c_str(), &link, H5P_DEFAULT) < 0) {
      fail_reading(path_, "link \"" + escape(name) + "\"", "cannot read the link");
    }
    if (link.type != H5L_TYPE_HARD) {
      unsupported("link \"" + escape(name) + "\"", "links to other places are not supported");
    }
    if (H5Oget_info_by_name(root_.get(), name.c_str(), &info, H5P_DEFAULT) < 0) {
      fail_reading(path_, "object \"" + escape(name) + "\"", "cannot read the object's header");
    }
    if (info.type == H5O_TYPE_GROUP) {
      add_bytes(name);
    } else if (info.type == H5O_TYPE_DATASET) {
      add_numbers(name);
    } else {
      unsupported("object \"" + escape(name) + "\"", "neither a group nor a dataset");
    }
  }

  void add_bytes(const std::string& name) {
    const GroupHandle group =
        checked(GroupHandle(H5Gopen2(root_.get(), name.c_str(), H5P_DEFAULT)), path_,
                "group \"" + escape(name) + "\"", "cannot open the group");
    const std::vector<std::string> members = link_names(group.get(), path_);
    for (const std::string& member : members) {
      if (member != "data" && member != "offsets" && member != "present") {
        unsupported("object \"" + escape(name + "/" + member) + "\"",
                    "a byte-string field has only data, offsets and present");
      }
    }
    ColumnRecord column = new_column(name, ColumnKind::kBytes);
    column.data = own_vector(name + "/data", DType::kUInt8);
    column.offsets = own_vector(name + "/offsets", DType::kUInt64);
    if (std::binary_search(members.begin(), members.end(), "present")) {
      column.present = own_vector(name + "/present", DType::kUInt8);
    }
    if (index_.columns.empty()) {  // the keys say how many samples there are
      if (column.offsets.rows == 0) damaged("dataset \"__key__/offsets\"", "it has no elements");
      index_.samples = column.offsets.rows - 1;
    }
    check_rows(name + "/offsets", column.offsets.rows, index_.samples + 1);
    if (column.present.storage != Storage::kNone) {
      check_rows(name + "/present", column.present.rows, index_.samples);
    }
    index_.columns.push_back(column);
  }

  void add_numbers(const std::string& name) {
    const OpenDataset dataset = open_dataset(root_.get(), path_, name);
    if (dataset.dims.size() == 1 && is_byte_sequence(dataset.type.get())) {
      return add_rows_of_bytes(dataset, name);
    }
    if (!dataset.element || dataset.dims.empty()) {
      unsupported(dataset.place(),
                  "values of type " + type_name(dataset.type.get()) + " are not supported",
                  "numbers, or data and offsets, can be fields");
    }
    check_rows(name, dataset.dims[0], index_.samples);
    const bool is_class =
        name == "cls" ? dataset.dims.size() == 1
                      : attributes_of(dataset.dataset.get(), dataset.place()).has(kClassAttribute);
    if (is_class && (dataset.element->dtype != DType::kInt64 || dataset.dims.size() != 1)) {
      unsupported(dataset.place(), "class numbers must be int64, one a sample",
                  "store them as int64");
    }
    ColumnRecord column = new_column(name, is_class ? ColumnKind::kClass : ColumnKind::kArray);
    set_type(column, row_of(dataset));
    column.data = extent(dataset);
    add_present(name, column);
    index_.columns.push_back(column);
  }

  void add_present(const std::string& name, ColumnRecord& column) {
    const std::string present = name + std::string(kPresentSuffix);
    if (H5Lexists(root_.get(), present.c_str(), H5P_DEFAULT) <= 0) return;
    column.present = own_vector(present, DType::kUInt8);
    check_rows(present, column.present.rows, index_.samples);
  }

  void add_rows_of_bytes(const OpenDataset& dataset, const std::string& name) {
    check_rows(name, dataset.dims[0], index_.samples);
    ColumnRecord column = new_column(name, ColumnKind::kSequence);
    column.heap_base = base_;
    column.data = references(dataset);
    add_present(name, column);
    index_.columns.push_back(column);
  }

  void check_rows(const std::string& name, std::uint64_t rows, std::uint64_t expected) const {
    if (rows == expected) return;
    damaged("dataset \"" + escape(name) + "\"", "it has " + std::to_string(rows) + " elements, " +
                                                    std::to_string(expected) + " are expected");
  }

  ExtentRecord own_vector(const std::string& name, DType dtype) {
    const OpenDataset dataset = open_dataset(root_.get(), path_, name);
    if (!dataset.element || dataset.element->dtype != dtype || dataset.dims.size() != 1) {
      damaged(dataset.place(), "it must be a vector of " + std::string(dtype_name(dtype)));
    }
    return extent(dataset);
  }

  // ---- other people's files ----

  void build_foreign() {
    index_.layout = Layout::kArrays;
    Catalog catalog = list_datasets(file_.get(), path_);
    index_.warnings = std::move(catalog.warnings);
    const std::string prefix =
        inner_.empty() ? std::string("/") : chosen_prefix(inner_, catalog.datasets);
    if (prefix.empty()) {
      throw Error(ErrorCode::kInvalidArgument, path_, {},
                  "holds no group, dataset or beginning of names \"" + escape(inner_) + '"',
                  "shardmill inspect " + escape(path_) + " lists what is there");
    }
    std::vector<OpenDataset> fields;
    std::vector<Rows> rows;
    for (const std::string& name : catalog.datasets) {
      if (!name.starts_with(prefix)) continue;
      OpenDataset dataset = open_dataset(file_.get(), path_, name);
      if (dataset.dims.empty()) {
        index_.warnings.push_back(dataset.place() + " has no rows and is left out");
        continue;
      }
      rows.push_back({dataset.name, dataset.dims[0]});
      fields.push_back(std::move(dataset));
    }
    if (fields.empty()) unsupported({}, "it holds no dataset with rows, so no samples");
    require_one_length(rows, path_);
    index_.samples = rows.front().count;
    for (const OpenDataset& dataset : fields) {
      const TypeHandle type(H5Tcopy(dataset.type.get()));
      add_foreign(dataset, type, field_name(dataset.name, prefix), dataset.name);
    }
    if (index_.columns.empty()) unsupported(first_left_out_, "none of its datasets can be a field");
    const auto name = [this](const ColumnRecord& column) {
      return std::string_view(index_.text).substr(column.name_at, column.name_size);
    };
    std::sort(index_.columns.begin(), index_.columns.end(),
              [&](const ColumnRecord& a, const ColumnRecord& b) { return name(a) < name(b); });
    for (std::size_t i = 1; i < index_.columns.size(); ++i) {
      if (name(index_.columns[i]) != name(index_.columns[i - 1])) continue;
      unsupported({},
                  "two of its fields would be called \"" + escape(name(index_.columns[i])) + '"',
                  "choose one of them with #NAME");
    }
  }

  // `source` is `dataset`, or a member of its compounds.
  void add_foreign(const OpenDataset& dataset, const TypeHandle& type, const std::string& name,
                   const std::string& source) {
    const std::vector<std::string> members = member_names(type.get());
    if (!members.empty() && std::count(source.begin(), source.end(), '\0') < kMaxMembers) {
      for (const std::string& member : members) {
        add_foreign(dataset, member_type(type.get(), member), name + '.' + member,
                    source + '\0' + member);
      }
      return;
    }
    const RowType row = row_type_of(type.get());
    std::uint64_t elements = 1;  // of a row
    for (std::size_t d = 1; d < dataset.dims.size(); ++d) elements *= dataset.dims[d];
    const bool one = row.kind == RowKind::kNumbers || elements == 1;
    if (row.kind == RowKind::kNone || !one) {
      const std::string what = "values of type " + type_name(type.get()) +
                               (row.kind == RowKind::kNone ? "" : ", several in a row,") +
                               " are not supported";
      if (first_left_out_.empty()) first_left_out_ = dataset.place() + ": " + what;
      index_.warnings.push_back("field \"" + escape(name) + "\" is left out: " + what);
      return;
    }
    ColumnRecord column = new_column(name, column_kind(row.kind));
    column.heap_base = base_;
    column.data = foreign_extent(dataset, row, source, column);
    index_.columns.push_back(column);
  }

  static ColumnKind column_kind(RowKind kind) {
    switch (kind) {
      case RowKind::kFixedText:
        return ColumnKind::kFixedText;
      case RowKind::kText:
        return ColumnKind::kText;
      case RowKind::kBytes:
        return ColumnKind::kSequence;
      case RowKind::kNumberSequence:
        return ColumnKind::kNumberSequence;
      default:
        return ColumnKind::kArray;
    }
  }

  ExtentRecord foreign_extent(const OpenDataset& dataset, const RowType& row,
                              const std::string& source, ColumnRecord& column) {
    const bool member = source != dataset.name;
    if (row.varies()) {
      column.dtype = static_cast<std::uint64_t>(row.dtype);
      if (member || row.kind == RowKind::kNumberSequence) return library_extent(dataset, 1, source);
      return references(dataset);
    }
    std::vector<std::uint64_t> shape(dataset.dims.begin() + 1, dataset.dims.end());
    shape.insert(shape.end(), row.inner.begin(), row.inner.end());
    ArrayType type{row.dtype, std::move(shape)};
    std::uint64_t bytes = row.bytes;
    if (row.kind == RowKind::kNumbers) {
      set_type(column, type);
      bytes = type.bytes();
    } else {
      column.dtype = static_cast<std::uint64_t>(row.padding);
    }
    return member ? library_extent(dataset, bytes, source) : extent(dataset, bytes, row.exact);
  }

  // ---- where the rows of a dataset lie ----

  ColumnRecord new_column(const std::string& name, ColumnKind kind) {
    ColumnRecord column;
    column.name_at = index_.add_text(name);
    column.name_size = name.size();
    column.kind = kind;
    return column;
  }

  void set_type(ColumnRecord& column, const ArrayType& row) {
    column.dtype = static_cast<std::uint64_t>(row.dtype);
    column.shape_at = index_.words.size();
    column.rank = row.shape.size();
    index_.words.insert(index_.words.end(), row.shape.begin(), row.shape.end());
  }

  ExtentRecord library_extent(const OpenDataset& dataset, std::uint64_t row_bytes,
                              const std::string& source) {
    if (dataset.elsewhere()) {
      unsupported(dataset.place(), "its values lie in other files (external or virtual storage)",
                  "copy them into one file");
    }
    ExtentRecord record;
    record.storage = Storage::kLibrary;
    record.rows = dataset.dims[0];
    record.row_bytes = row_bytes;
    record.path_at = index_.add_text(source);
    record.path_size = source.size();
    check_filters(dataset, path_);  // now, and not at the first read in a worker
    warn_of_large_chunks(dataset);
    return record;
  }

  ExtentRecord references(const OpenDataset& dataset) {
    ExtentRecord record = extent(dataset, kReferenceBytes, true);
    if (record.storage == Storage::kLibrary) record.row_bytes = 1;
    return record;
  }

  // Every row of such a chunk that is read alone unpacks all of them.
  void warn_of_large_chunks(const OpenDataset& dataset) {
    if (dataset.filters.empty() || dataset.chunk.empty() || dataset.chunk[0] < 2) return;
    std::uint64_t bytes = H5Tget_size(dataset.type.get());
    for (const std::uint64_t extent : dataset.chunk) {
      if (__builtin_mul_overflow(bytes, extent, &bytes)) return;
    }
    if (bytes <= kLargeChunk) return;
    const std::string text = dataset.place() + ": its filtered chunks hold " +
                             std::to_string(dataset.chunk[0]) + " rows, " + std::to_string(bytes) +
                             " bytes: in random order each row unpacks a chunk; shuffle in blocks, "
                             "or convert it";
    if (std::find(index_.warnings.begin(), index_.warnings.end(), text) == index_.warnings.end()) {
      index_.warnings.push_back(text);
    }
  }

  static ArrayType row_of(const OpenDataset& dataset) {
    return {dataset.element->dtype, {dataset.dims.begin() + 1, dataset.dims.end()}};
  }

  ExtentRecord extent(const OpenDataset& dataset) {
    return extent(dataset, row_of(dataset).bytes(), dataset.element->exact);
  }

  ExtentRecord extent(const OpenDataset& dataset, std::uint64_t row_bytes, bool exact) {
    ExtentRecord record;
    record.rows = dataset.dims[0];
    record.row_bytes = row_bytes;
    std::uint64_t total = 0;
    if (__builtin_mul_overflow(record.rows, record.row_bytes, &total)) {
      damaged(dataset.place(), "absurd shape");
    }
    record.path_at = index_.add_text(dataset.name);
    record.path_size = dataset.name.size();
    const bool plain = exact && dataset.filters.empty() && !dataset.elsewhere();
    if (total == 0) {
      record.storage = Storage::kContiguous;  // nothing to find
      return record;
    }
    if (plain && dataset.layout == H5D_CONTIGUOUS && contiguous(dataset, total, record)) {
      return record;
    }
    if (plain && dataset.layout == H5D_CHUNKED && chunked(dataset, record)) return record;
    return library_extent(dataset, record.row_bytes, dataset.name);
  }

  bool contiguous(const OpenDataset& dataset, std::uint64_t total, ExtentRecord& record) {
    const haddr_t at = H5Dget_offset(dataset.dataset.get());
    // With a user block the library adds its size to "no address", too, which wraps around.
    if (at == HADDR_UNDEF || at < base_) return fill_values(dataset);
    if (at > bytes_.size() || total > bytes_.size() - at) {
      damaged(dataset.place(), "its values end at " + std::to_string(at + total) +
                                   ", the file at " + std::to_string(bytes_.size()) + " bytes");
    }
    record.storage = Storage::kContiguous;
    record.at = at;
    return true;
  }

  // Elements that were never written have the fill value. Our writers write all of them.
  bool fill_values(const OpenDataset& dataset) const {
    if (index_.layout == Layout::kShardmill) {
      damaged(dataset.place(), "some of its values are not in the file");
    }
    return false;
  }

  bool chunked(const OpenDataset& dataset, ExtentRecord& record) {
    if (!std::equal(dataset.dims.begin() + 1, dataset.dims.end(), dataset.chunk.begin() + 1)) {
      return false;  // rows are cut into pieces
    }
    ChunkGrid grid;
    grid.base = base_;
    grid.rank = static_cast<unsigned>(dataset.dims.size());
    grid.chunk_rows = dataset.chunk[0];
    if (grid.chunk_rows == 0 ||
        __builtin_mul_overflow(grid.chunk_rows, record.row_bytes, &grid.chunk_bytes) ||
        grid.chunk_bytes > kMaxComparedChunk) {
      return false;
    }
    grid.chunks = (record.rows - 1) / grid.chunk_rows + 1;
    H5O_info_t info{};
    if (H5Oget_info(dataset.dataset.get(), &info) < 0) {
      fail_reading(path_, dataset.place(), "cannot read the object's header");
    }
    const auto table = read_chunk_table(bytes_, info.addr, grid, dataset.place());
    if (!table) return false;
    if (std::find(table->begin(), table->end(), kNoChunk) != table->end()) {
      return fill_values(dataset);
    }
    compare(dataset, grid, *table);
    record.storage = Storage::kChunked;
    record.chunk_rows = grid.chunk_rows;
    record.at = index_.words.size();
    index_.words.insert(index_.words.end(), table->begin(), table->end());
    return true;
  }

  // The library must find the same bytes in the first, the middle and the last chunk.
  void compare(const OpenDataset& dataset, const ChunkGrid& grid,
               const std::vector<std::uint64_t>& table) {
    std::vector<std::byte> theirs(grid.chunk_bytes);
    for (const std::size_t i : {std::size_t{0}, table.size() / 2, table.size() - 1}) {
      std::array<hsize_t, H5S_MAX_RANK> offset{};
      offset[0] = i * grid.chunk_rows;
      std::uint32_t mask = 0;
      hsize_t stored = 0;
      if (H5Dget_chunk_storage_size(dataset.dataset.get(), offset.data(), &stored) < 0 ||
          stored != grid.chunk_bytes) {
        damaged(dataset.place(), "chunk of unexpected size");
      }
      if (H5Dread_chunk(dataset.dataset.get(), H5P_DEFAULT, offset.data(), &mask, theirs.data()) <
          0) {
        fail_reading(path_, dataset.place(), "cannot read a chunk");
      }
      bytes_.release();
      const Bytes ours = bytes_.bytes(table[i], grid.chunk_bytes);
      if (std::memcmp(ours.data(), theirs.data(), ours.size()) != 0) {
        damaged(dataset.place(), "chunk " + std::to_string(i) + " is not where its address says");
      }
    }
  }

  const std::string& path_;
  const std::string& inner_;
  std::string first_left_out_;
  internal::InputFile bytes_;
  std::uint64_t base_;
  FileHandle file_;
  GroupHandle root_;
  IndexBuilder index_;
};

}  // namespace

IndexBuilder build_index(const std::string& path, const std::string& inner) {
  const Session session;
  return Builder(path, inner).build();
}

}  // namespace shardmill::hdf5
