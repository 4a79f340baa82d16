// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/index_builder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "formats/hdf5/internal/catalog.h"
#include "formats/hdf5/internal/chunk_table.h"
#include "formats/hdf5/internal/object_header.h"
#include "formats/hdf5/internal/structure.h"
#include "formats/hdf5/internal/superblock.h"

namespace shardmill::hdf5 {

namespace {

// Comparing with the library needs memory for a whole chunk; larger ones are left to it.
constexpr std::uint64_t kMaxComparedChunk = 64u << 20;
constexpr std::size_t kMaxListed = 20;

class Builder {
 public:
  explicit Builder(const std::string& path)
      : path_(path), bytes_(path, Access::kRead), base_(check_superblock(bytes_).base) {
    file_ = open_for_reading(path);
    index_.file_size = bytes_.size();
  }

  IndexBuilder build() {
    root_ = checked(GroupHandle(H5Gopen2(file_.get(), "/", H5P_DEFAULT)), path_, {},
                    "cannot open the root group");
    const Attributes attributes = attributes_of(root_.get(), "root group");
    if (attributes.has(kVersionAttribute)) {
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
    set_type(column, dataset);
    column.data = extent(dataset);
    const std::string present = name + std::string(kPresentSuffix);
    if (H5Lexists(root_.get(), present.c_str(), H5P_DEFAULT) > 0) {
      column.present = own_vector(present, DType::kUInt8);
      check_rows(present, column.present.rows, index_.samples);
    }
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
    std::map<std::uint64_t, std::string> lengths;
    std::vector<OpenDataset> fields;
    std::string listing;
    for (std::size_t i = 0; i < catalog.datasets.size(); ++i) {
      OpenDataset dataset = open_dataset(file_.get(), path_, catalog.datasets[i]);
      if (dataset.dims.empty()) {
        index_.warnings.push_back(dataset.place() + " has no rows and is left out");
        continue;
      }
      lengths.emplace(dataset.dims[0], dataset.name);
      if (fields.size() < kMaxListed) {
        listing += (fields.empty() ? "" : ", ") + escape(dataset.name) + ": " +
                   std::to_string(dataset.dims[0]);
      } else if (fields.size() == kMaxListed) {
        listing += ", …";
      }
      fields.push_back(std::move(dataset));
    }
    if (fields.empty()) unsupported({}, "it holds no dataset with rows, so no samples");
    if (lengths.size() > 1) {
      throw Error(ErrorCode::kInvalidArgument, path_, {},
                  "its datasets have different lengths (" + listing + ")",
                  "only datasets of one length can be the fields of one set of samples");
    }
    index_.samples = lengths.begin()->first;
    for (const OpenDataset& dataset : fields) add_foreign(dataset);
  }

  void add_foreign(const OpenDataset& dataset) {
    const bool sequence = is_byte_sequence(dataset.type.get()) && dataset.dims.size() == 1;
    if (!dataset.element && !sequence) {
      unsupported(dataset.place(),
                  "values of type " + type_name(dataset.type.get()) + " are not supported",
                  "convert them to numbers or to variable-length uint8");
    }
    ColumnRecord column =
        new_column(dataset.name.substr(1), sequence ? ColumnKind::kSequence : ColumnKind::kArray);
    if (sequence) {
      column.data = library_extent(dataset, 1);
    } else {
      set_type(column, dataset);
      column.data = extent(dataset);
    }
    index_.columns.push_back(column);
  }

  // ---- where the rows of a dataset lie ----

  ColumnRecord new_column(const std::string& name, ColumnKind kind) {
    ColumnRecord column;
    column.name_at = index_.add_text(name);
    column.name_size = name.size();
    column.kind = kind;
    return column;
  }

  void set_type(ColumnRecord& column, const OpenDataset& dataset) {
    column.dtype = static_cast<std::uint64_t>(dataset.element->dtype);
    column.shape_at = index_.words.size();
    column.rank = dataset.dims.size() - 1;
    index_.words.insert(index_.words.end(), dataset.dims.begin() + 1, dataset.dims.end());
  }

  ExtentRecord library_extent(const OpenDataset& dataset, std::uint64_t row_bytes) {
    if (dataset.elsewhere()) {
      unsupported(dataset.place(), "its values lie in other files (external or virtual storage)",
                  "copy them into one file");
    }
    ExtentRecord record;
    record.storage = Storage::kLibrary;
    record.rows = dataset.dims[0];
    record.row_bytes = row_bytes;
    record.path_at = index_.add_text(dataset.name);
    record.path_size = dataset.name.size();
    check_filters(dataset, path_);  // now, and not at the first read in a worker
    return record;
  }

  ExtentRecord extent(const OpenDataset& dataset) {
    const ArrayType row{dataset.element->dtype, {dataset.dims.begin() + 1, dataset.dims.end()}};
    ExtentRecord record;
    record.rows = dataset.dims[0];
    record.row_bytes = row.bytes();
    std::uint64_t total = 0;
    if (__builtin_mul_overflow(record.rows, record.row_bytes, &total)) {
      damaged(dataset.place(), "absurd shape");
    }
    record.path_at = index_.add_text(dataset.name);
    record.path_size = dataset.name.size();
    const bool plain = dataset.element->exact && dataset.filters.empty() && !dataset.elsewhere();
    if (total == 0) {
      record.storage = Storage::kContiguous;  // nothing to find
      return record;
    }
    if (plain && dataset.layout == H5D_CONTIGUOUS && contiguous(dataset, total, record)) {
      return record;
    }
    if (plain && dataset.layout == H5D_CHUNKED && chunked(dataset, record)) return record;
    return library_extent(dataset, record.row_bytes);
  }

  bool contiguous(const OpenDataset& dataset, std::uint64_t total, ExtentRecord& record) {
    const haddr_t at = H5Dget_offset(dataset.dataset.get());
    if (at == HADDR_UNDEF) return fill_values(dataset);
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
  internal::InputFile bytes_;
  std::uint64_t base_;
  FileHandle file_;
  GroupHandle root_;
  IndexBuilder index_;
};

}  // namespace

IndexBuilder build_index(const std::string& path) {
  const Session session;
  return Builder(path).build();
}

}  // namespace shardmill::hdf5
