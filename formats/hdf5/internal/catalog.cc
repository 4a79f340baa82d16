// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/catalog.h"

#include <algorithm>
#include <array>
#include <set>

#include "formats/hdf5/internal/little_endian.h"
#include "formats/hdf5/internal/object_header.h"
#include "formats/hdf5/internal/old_group.h"
#include "formats/hdf5/internal/superblock.h"

namespace shardmill::hdf5 {

namespace {

constexpr unsigned kSpaceMessage = 0x01;
constexpr int kMaxGroupDepth = 256;

struct Names {
  std::vector<std::string> names;
  std::vector<haddr_t> headers;  // of the objects behind hard links
  bool out_of_memory = false;
};

// Called from C: nothing may be thrown through the library.
herr_t collect_name(hid_t, const char* name, const H5L_info_t* info, void* out) {
  auto& names = *static_cast<Names*>(out);
  try {
    names.names.emplace_back(name);
    if (info->type == H5L_TYPE_HARD) names.headers.push_back(info->u.address);
  } catch (...) {
    names.out_of_memory = true;
    return -1;
  }
  return 0;
}

class Lister {
 public:
  Lister(hid_t file, const std::string& path) : file_(file), path_(path) {}

  Catalog list() {
    enter("/", 0);
    std::sort(catalog_.datasets.begin(), catalog_.datasets.end());
    return std::move(catalog_);
  }

 private:
  void enter(const std::string& name, int depth) {
    const std::string place = "group \"" + escape(name) + "\"";
    if (depth > kMaxGroupDepth) {
      throw Error(ErrorCode::kUnsupported, path_, place, "groups are nested too deeply");
    }
    const GroupHandle group = checked(GroupHandle(H5Gopen2(file_, name.c_str(), H5P_DEFAULT)),
                                      path_, place, "cannot open the group");
    for (const std::string& link : link_names(group.get(), path_)) {
      visit(group.get(), link, (name == "/" ? "/" : name + "/") + link, depth);
    }
  }

  void visit(hid_t group, const std::string& link, const std::string& name, int depth) {
    H5L_info_t info{};
    if (H5Lget_info(group, link.c_str(), &info, H5P_DEFAULT) < 0) {
      fail_reading(path_, "link \"" + escape(name) + "\"", "cannot read the link");
    }
    if (info.type != H5L_TYPE_HARD) {
      const char* kind = info.type == H5L_TYPE_SOFT       ? "soft"
                         : info.type == H5L_TYPE_EXTERNAL ? "external"
                                                          : "user-defined";
      catalog_.warnings.push_back(std::string(kind) + " link \"" + escape(name) +
                                  "\" is not followed");
      return;
    }
    const std::string place = "object \"" + escape(name) + "\"";
    const ObjectHandle object = checked(ObjectHandle(H5Oopen(group, link.c_str(), H5P_DEFAULT)),
                                        path_, place, "cannot open the object");
    const H5I_type_t type = H5Iget_type(object.get());
    if (type == H5I_DATASET) catalog_.datasets.push_back(name);
    if (type != H5I_GROUP) return;
    H5O_info_t object_info{};
    if (H5Oget_info(object.get(), &object_info) < 0) {
      fail_reading(path_, place, "cannot read the object's header");
    }
    if (!seen_.insert(object_info.addr).second) {
      catalog_.warnings.push_back("group \"" + escape(name) + "\" was listed under another name");
      return;
    }
    enter(name, depth + 1);
  }

  hid_t file_;
  const std::string& path_;
  std::set<haddr_t> seen_;
  Catalog catalog_;
};

// False for chunks of no extent, which the library divides by, and for those of another rank than
// the dataspace. Newer versions have checksums.
bool is_sound_layout(Bytes body, std::size_t space_rank) {
  constexpr std::byte kChunked{2};
  if (body.size() < 3) return false;
  const bool v3 = body[0] == std::byte{3};
  if (body[0] > std::byte{3} || body[v3 ? 1 : 2] != kChunked) return true;
  const auto rank = static_cast<std::size_t>(body[v3 ? 2 : 1]);
  const std::size_t extents = v3 ? 11 : 16;
  if (body.size() < extents + 4 * rank || rank != space_rank + 1) return false;
  for (std::size_t d = 0; d < rank; ++d) {
    if (little_endian<std::uint32_t>(body, extents + 4 * d) == 0) return false;
  }
  return true;
}

// The library crashes on some damaged headers when it opens what has them: we look at them first.
void check_headers(const std::vector<haddr_t>& headers, const std::string& path) {
  internal::InputFile file(path, Access::kRead);
  const Superblock superblock = check_superblock(file);
  for (const haddr_t header : headers) {
    const std::string place = "object header at " + std::to_string(header);
    const std::vector<HeaderMessage> messages =
        read_object_header(file, superblock.base, header, place);
    std::size_t rank = 0;
    for (const HeaderMessage& message : messages) {
      if (message.type != kSpaceMessage || message.body.size() < 2) continue;
      rank = static_cast<std::size_t>(message.body[1]);
    }
    for (const HeaderMessage& message : messages) {
      if (message.type != kLayoutMessage || is_sound_layout(message.body, rank)) continue;
      throw Error(ErrorCode::kDataLoss, path, place, "its layout is damaged",
                  "copy or convert the file again");
    }
    check_old_group(file, superblock, messages, place);
  }
}

void read_shape(OpenDataset& out, const std::string& path) {
  const SpaceHandle space = checked(SpaceHandle(H5Dget_space(out.dataset.get())), path, out.place(),
                                    "cannot read the dataspace");
  out.null_space = H5Sget_simple_extent_type(space.get()) == H5S_NULL;
  std::array<hsize_t, H5S_MAX_RANK> dims{};
  const int rank = H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
  if (rank < 0) fail_reading(path, out.place(), "cannot read the shape");
  out.dims.assign(dims.begin(), dims.begin() + rank);
}

// The library reads on behind compact values that are fewer than the shape says.
void check_size(const OpenDataset& dataset, const std::string& path) {
  if (dataset.external || dataset.null_space ||
      (dataset.layout != H5D_COMPACT && dataset.layout != H5D_CONTIGUOUS)) {
    return;
  }
  constexpr std::uint64_t kReference = 16;  // what stands for a value of variable length
  std::uint64_t bytes =
      has_variable_parts(dataset.type.get()) ? kReference : H5Tget_size(dataset.type.get());
  bool fits = true;
  for (const std::uint64_t extent : dataset.dims) {
    fits = fits && !__builtin_mul_overflow(bytes, extent, &bytes);
  }
  const hsize_t stored = H5Dget_storage_size(dataset.dataset.get());
  // Contiguous values that were never written have no place yet.
  if (fits && (stored >= bytes || (stored == 0 && dataset.layout == H5D_CONTIGUOUS))) return;
  throw Error(ErrorCode::kDataLoss, path, dataset.place(),
              "its values have " + std::to_string(stored) + " bytes, fewer than its shape says",
              "copy or convert the file again");
}

void read_storage(OpenDataset& out, const std::string& path) {
  const PropertyHandle list = checked(PropertyHandle(H5Dget_create_plist(out.dataset.get())), path,
                                      out.place(), "cannot read the storage properties");
  out.layout = H5Pget_layout(list.get());
  if (out.layout < 0) fail_reading(path, out.place(), "cannot read the layout");
  if (out.layout == H5D_CHUNKED) {
    std::array<hsize_t, H5S_MAX_RANK> chunk{};
    const int rank = H5Pget_chunk(list.get(), H5S_MAX_RANK, chunk.data());
    if (rank != static_cast<int>(out.dims.size())) {
      fail_reading(path, out.place(), "chunk shape contradicts the dataset's");
    }
    out.chunk.assign(chunk.begin(), chunk.begin() + rank);
  }
  out.external = H5Pget_external_count(list.get()) > 0;
  const int filters = H5Pget_nfilters(list.get());
  for (int i = 0; i < filters; ++i) {
    std::size_t values = 0;
    unsigned flags = 0;
    unsigned config = 0;
    std::array<char, 256> name{};
    const H5Z_filter_t id = H5Pget_filter2(list.get(), static_cast<unsigned>(i), &flags, &values,
                                           nullptr, name.size(), name.data(), &config);
    if (id < 0) fail_reading(path, out.place(), "cannot read the filters");
    name.back() = '\0';
    out.filters.push_back(name[0] != '\0' ? std::string(name.data())
                                          : "filter " + std::to_string(id));
  }
}

}  // namespace

std::vector<std::string> link_names(hid_t group, const std::string& path) {
  Names names;
  hsize_t position = 0;
  const herr_t status =
      H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, &position, collect_name, &names);
  if (names.out_of_memory) throw std::bad_alloc();
  if (status < 0) fail_reading(path, {}, "cannot list a group");
  check_headers(names.headers, path);
  std::sort(names.names.begin(), names.names.end());
  return std::move(names.names);
}

Catalog list_datasets(hid_t file, const std::string& path) { return Lister(file, path).list(); }

OpenDataset open_dataset(hid_t file, const std::string& path, const std::string& name) {
  OpenDataset out;
  out.name = name;
  out.dataset = checked(DatasetHandle(H5Dopen2(file, name.c_str(), H5P_DEFAULT)), path, out.place(),
                        "cannot open the dataset");
  out.type = checked(TypeHandle(H5Dget_type(out.dataset.get())), path, out.place(),
                     "cannot read the element type");
  if (!is_sound(out.type.get())) {
    throw Error(ErrorCode::kDataLoss, path, out.place(), "its element type contradicts itself",
                "copy or convert the file again");
  }
  out.element = element_of(out.type.get());
  read_shape(out, path);
  read_storage(out, path);
  check_size(out, path);
  return out;
}

void check_filters(const OpenDataset& dataset, const std::string& path) {
  if (dataset.filters.empty()) return;
  const PropertyHandle list(H5Dget_create_plist(dataset.dataset.get()));
  if (list && H5Pall_filters_avail(list.get()) > 0) return;
  std::string names;
  for (const std::string& filter : dataset.filters) {
    names += (names.empty() ? "" : ", ") + escape(filter);
  }
  throw Error(ErrorCode::kUnsupported, path, dataset.place(),
              "a filter it needs is not available (" + names + ")",
              "copy the file with h5repack -f NONE where the filter is installed");
}

}  // namespace shardmill::hdf5
