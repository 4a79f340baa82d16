// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>
#include <shardmill/formats/error.h>

#include <mutex>
#include <string>
#include <utility>

namespace shardmill::hdf5 {

/// Owns an HDF5 identifier. Move-only; closes it, ignoring failures, unless it is invalid.
template <herr_t (*Close)(hid_t)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(hid_t id) noexcept : id_(id) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Handle() { close(); }

  hid_t get() const noexcept { return id_; }
  explicit operator bool() const noexcept { return id_ >= 0; }
  /// Closes now; false if the library says that this failed.
  bool close() noexcept {
    const hid_t id = std::exchange(id_, H5I_INVALID_HID);
    return id < 0 || Close(id) >= 0;
  }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

using FileHandle = Handle<H5Fclose>;
using GroupHandle = Handle<H5Gclose>;
using DatasetHandle = Handle<H5Dclose>;
using SpaceHandle = Handle<H5Sclose>;
using TypeHandle = Handle<H5Tclose>;
using PropertyHandle = Handle<H5Pclose>;
using AttributeHandle = Handle<H5Aclose>;
using ObjectHandle = Handle<H5Oclose>;

/// Brackets every use of the HDF5 library in one thread: serialises callers if the library was
/// built without thread safety, and keeps it from printing its error stack to stderr (after a
/// failure also from then on). Handles must be closed while a session exists. Sessions nest.
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  std::unique_lock<std::recursive_mutex> lock_;
  H5E_auto2_t print_ = nullptr;
  void* print_data_ = nullptr;
};

/// Returns the library's own words for the last failed call in this thread, lower case.
std::string last_error();

/// Throws kDataLoss for a failed call of the library while reading: `what` and its words.
[[noreturn]] void fail_reading(const std::string& path, const std::string& place,
                               const std::string& what);

/// Passes `handle` on, or throws as fail_reading() does if it is invalid.
template <typename H>
H checked(H handle, const std::string& path, const std::string& place, const char* what) {
  if (!handle) fail_reading(path, place, what);
  return handle;
}

/// Opens a file for reading without taking a lock. Looks at the superblock first, so that a file
/// that was cut off or not closed is said to be just that (kDataLoss).
FileHandle open_for_reading(const std::string& path);

}  // namespace shardmill::hdf5
