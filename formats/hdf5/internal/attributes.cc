// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/attributes.h"

#include <array>

#include "formats/hdf5/internal/index_builder.h"
#include "formats/hdf5/internal/structure.h"

namespace shardmill::hdf5 {

namespace {

void require(bool succeeded, const char* name) {
  if (succeeded) return;
  throw Error(ErrorCode::kInternal, {}, std::string("attribute \"") + name + "\"",
              "cannot write it: " + last_error());
}

void add(hid_t object, const char* name, hid_t type, hid_t memory_type, const SpaceHandle& space,
         const void* values) {
  const AttributeHandle attribute(
      H5Acreate2(object, name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT));
  require(attribute && H5Awrite(attribute.get(), memory_type, values) >= 0, name);
}

}  // namespace

void add_attribute(hid_t object, const char* name, std::int64_t value) {
  const SpaceHandle space(H5Screate(H5S_SCALAR));
  add(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, space, &value);
}

void add_attribute(hid_t object, const char* name, std::span<const std::uint64_t> values) {
  const hsize_t size = values.size();
  const SpaceHandle space(H5Screate_simple(1, &size, nullptr));
  add(object, name, H5T_STD_U64LE, H5T_NATIVE_UINT64, space, values.data());
}

void write_structure(const std::filesystem::path& file, OutputStatus& status) {
  const IndexBuilder index = build_index(file.string());
  std::array<std::uint64_t, 2> values{};
  {
    internal::InputFile bytes(file, Access::kRead);
    values = {index.file_size, structure_hash(index, bytes)};
  }
  const PropertyHandle access = output_access(status, 2048);
  FileHandle open(H5Fopen(file.c_str(), H5F_ACC_RDWR, access.get()));
  require(static_cast<bool>(open), kStructureAttribute);
  {
    const AttributeHandle attribute(
        H5Aopen_by_name(open.get(), "/", kStructureAttribute, H5P_DEFAULT, H5P_DEFAULT));
    require(attribute && H5Awrite(attribute.get(), H5T_NATIVE_UINT64, values.data()) >= 0,
            kStructureAttribute);
  }
  require(open.close(), kStructureAttribute);
  // The attribute had its place already; were the file another length now, its check would be off.
  if (status.error == 0) SHARDMILL_CHECK(std::filesystem::file_size(file) == index.file_size);
}

}  // namespace shardmill::hdf5
