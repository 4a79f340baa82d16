// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/index_builder.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "formats/hdf5/internal/catalog.h"
#include "formats/hdf5/internal/object_header.h"
#include "formats/hdf5/internal/row_locator.h"
#include "formats/hdf5/internal/row_type.h"
#include "formats/hdf5/internal/sets.h"
#include "formats/hdf5/internal/structure.h"
#include "formats/hdf5/internal/superblock.h"

namespace shardmill::hdf5 {

namespace {

constexpr std::ptrdiff_t kMaxMembers = 8;  // compounds in compounds

class Builder {
 public:
  Builder(const std::string& path, const std::string& inner)
      : path_(path),
        inner_(inner),
        bytes_(path, Access::kRead),
        base_(check_superblock(bytes_).base),
        locate_(path_, bytes_, base_, index_) {
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
    set_type(column, RowLocator::row_of(dataset));
    column.data = locate_.extent(dataset);
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
    column.data = locate_.references(dataset);
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
    return locate_.extent(dataset);
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
      if (member || row.kind == RowKind::kNumberSequence)
        return locate_.library_extent(dataset, 1, source);
      return locate_.references(dataset);
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
    return member ? locate_.library_extent(dataset, bytes, source)
                  : locate_.extent(dataset, bytes, row.exact);
  }

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

  const std::string& path_;
  const std::string& inner_;
  std::string first_left_out_;
  internal::InputFile bytes_;
  std::uint64_t base_;
  FileHandle file_;
  GroupHandle root_;
  IndexBuilder index_;
  RowLocator locate_;
};

}  // namespace

IndexBuilder build_index(const std::string& path, const std::string& inner) {
  const Session session;
  return Builder(path, inner).build();
}

}  // namespace shardmill::hdf5
