// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/output_driver.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <new>

#include "formats/internal/output_file.h"

namespace shardmill::hdf5 {

namespace {

struct DriverInfo {
  OutputStatus* status;
};

// The library sees the first member only.
struct OutputDriverFile {
  H5FD_t base{};
  int fd = -1;
  haddr_t allocated = 0;
  haddr_t end = 0;
  OutputStatus* status = nullptr;
  shardmill::internal::Writeback writeback;
};

constexpr haddr_t kMaxAddress = std::numeric_limits<off_t>::max();

OutputDriverFile& self(H5FD_t* file) { return *reinterpret_cast<OutputDriverFile*>(file); }
const OutputDriverFile& self(const H5FD_t* file) {
  return *reinterpret_cast<const OutputDriverFile*>(file);
}

void record(OutputDriverFile& file, int error) {
  if (file.status->error == 0) file.status->error = error;
}

bool silent(const OutputDriverFile& file) {
  return file.status->error != 0 || file.status->discard;
}

H5FD_t* driver_open(const char* name, unsigned flags, hid_t access, haddr_t) {
  const auto* info = static_cast<const DriverInfo*>(H5Pget_driver_info(access));
  if (info == nullptr) return nullptr;
  int mode = (flags & H5F_ACC_RDWR) != 0 ? O_RDWR : O_RDONLY;
  if ((flags & H5F_ACC_CREAT) != 0) mode |= O_CREAT;
  if ((flags & H5F_ACC_TRUNC) != 0) mode |= O_TRUNC;
  auto* file = new (std::nothrow) OutputDriverFile;
  if (file == nullptr) return nullptr;
  file->status = info->status;
  file->fd = open(name, mode | O_CLOEXEC, 0666);
  struct stat status {};
  if (file->fd < 0 || fstat(file->fd, &status) != 0) {
    record(*file, errno);
    if (file->fd >= 0) close(file->fd);
    delete file;
    return nullptr;
  }
  file->end = static_cast<haddr_t>(status.st_size);
  return &file->base;
}

herr_t driver_close(H5FD_t* file) {
  close(self(file).fd);
  delete &self(file);
  return 0;
}

int driver_compare(const H5FD_t* a, const H5FD_t* b) {
  const int x = self(a).fd;
  const int y = self(b).fd;
  return x < y ? -1 : x > y;
}

herr_t driver_query(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA;
#ifdef H5FD_FEAT_DEFAULT_VFD_COMPATIBLE
  *flags |= H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
#endif
  return 0;
}

haddr_t driver_allocated(const H5FD_t* file, H5FD_mem_t) { return self(file).allocated; }

herr_t driver_set_allocated(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  self(file).allocated = address;
  return 0;
}

haddr_t driver_end(const H5FD_t* file, H5FD_mem_t) { return self(file).end; }

// What was never written reads as zeros, like a hole.
herr_t driver_read(H5FD_t* base, H5FD_mem_t, hid_t, haddr_t at, std::size_t size, void* out) {
  OutputDriverFile& file = self(base);
  auto* bytes = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t got = pread(file.fd, bytes, size, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      record(file, errno);
      return -1;
    }
    if (got == 0) break;
    bytes += got;
    at += static_cast<haddr_t>(got);
    size -= static_cast<std::size_t>(got);
  }
  std::memset(bytes, 0, size);
  return 0;
}

herr_t driver_write(H5FD_t* base, H5FD_mem_t, hid_t, haddr_t at, std::size_t size, const void* in) {
  OutputDriverFile& file = self(base);
  const auto* bytes = static_cast<const char*>(in);
  while (size > 0 && !silent(file)) {
    const ssize_t written = pwrite(file.fd, bytes, size, static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      record(file, errno);
      break;
    }
    bytes += written;
    at += static_cast<haddr_t>(written);
    size -= static_cast<std::size_t>(written);
    if (at > file.end) file.end = at;
  }
  file.writeback.reached(file.fd, file.end);
  return 0;
}

herr_t driver_truncate(H5FD_t* base, hid_t, hbool_t) {
  OutputDriverFile& file = self(base);
  if (file.end == file.allocated) return 0;
  if (!silent(file) && ftruncate(file.fd, static_cast<off_t>(file.allocated)) != 0) {
    record(file, errno);
  }
  file.end = file.allocated;
  return 0;
}

// Members are assigned by name because their order and number differ between HDF5 releases.
H5FD_class_t driver_class() {
  H5FD_class_t driver{};
#ifdef H5FD_CLASS_VERSION
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(H5_VFD_RESERVED + 1);
#endif
  driver.name = "shardmill_output";
  driver.maxaddr = kMaxAddress;
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.fapl_size = sizeof(DriverInfo);
  driver.open = driver_open;
  driver.close = driver_close;
  driver.cmp = driver_compare;
  driver.query = driver_query;
  driver.get_eoa = driver_allocated;
  driver.set_eoa = driver_set_allocated;
  driver.get_eof = driver_end;
  driver.read = driver_read;
  driver.write = driver_write;
  driver.truncate = driver_truncate;
  const H5FD_mem_t one_list_each[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
  std::memcpy(driver.fl_map, one_list_each, sizeof one_list_each);
  return driver;
}

hid_t driver_id() {
  static const H5FD_class_t driver = driver_class();
  static const hid_t id = H5FDregister(&driver);  // lives as long as the library
  return id;
}

}  // namespace

PropertyHandle output_access(OutputStatus& status, hsize_t meta_block_bytes) {
  PropertyHandle access(H5Pcreate(H5P_FILE_ACCESS));
  const DriverInfo info{&status};
  if (!access || H5Pset_driver(access.get(), driver_id(), &info) < 0 ||
      H5Pset_meta_block_size(access.get(), meta_block_bytes) < 0 ||
      H5Pset_libver_bounds(access.get(), H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST) < 0) {
    throw Error(ErrorCode::kInternal, {}, {}, "cannot set up HDF5: " + last_error());
  }
  return access;
}

}  // namespace shardmill::hdf5
