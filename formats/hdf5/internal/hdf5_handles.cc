// SPDX-License-Identifier: Apache-2.0
#include "formats/hdf5/internal/hdf5_handles.h"

#include <cctype>
#include <string_view>

#include "formats/hdf5/internal/lzf.h"
#include "formats/hdf5/internal/object_header.h"
#include "formats/hdf5/internal/old_group.h"
#include "formats/hdf5/internal/superblock.h"
#include "formats/internal/input_file.h"

namespace shardmill::hdf5 {

namespace {

std::recursive_mutex library_mutex;
thread_local bool library_failed = false;

bool library_is_thread_safe() {
  static const bool safe = [] {
    hbool_t value = false;
    return H5is_library_threadsafe(&value) >= 0 && value;
  }();
  return safe;
}

// Keeps the innermost description: it is the most specific one.
herr_t keep_first(unsigned, const H5E_error2_t* error, void* out) {
  auto& text = *static_cast<std::string*>(out);
  if (text.empty() && error->desc != nullptr) text = error->desc;
  return 0;
}

// Returns the library's words in `reason` where it fails; closing the properties clears them.
FileHandle open_read_only(const std::string& path, bool lock, std::string& reason) {
  const PropertyHandle access(H5Pcreate(H5P_FILE_ACCESS));
#if H5_VERSION_GE(1, 10, 7)
  H5Pset_file_locking(access.get(), lock, true);
#endif
  FileHandle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  if (!file) reason = last_error();
  return file;
}

}  // namespace

Session::Session() {
  if (!library_is_thread_safe()) lock_ = std::unique_lock(library_mutex);
  static const bool lzf = (register_lzf(), true);
  (void)lzf;
  H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

// A damaged file that the library gave up on may stay half open in it; it then complains on stderr
// when the process ends, unless printing is off.
Session::~Session() {
  if (!library_failed) H5Eset_auto2(H5E_DEFAULT, print_, print_data_);
}

std::string last_error() {
  library_failed = true;
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &text);
  if (text.empty()) return "the HDF5 library gives no reason";
  if (text.size() > 1 && std::isupper(static_cast<unsigned char>(text[0])) != 0 &&
      std::islower(static_cast<unsigned char>(text[1])) != 0) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  }
  return text;
}

void fail_reading(const std::string& path, const std::string& place, const std::string& what) {
  throw Error(ErrorCode::kDataLoss, path, place, what + ": " + last_error(),
              "copy or convert the file again");
}

namespace {

// Follows the root group's header, as the library does before anything else, wherever it leads, and
// what its names are in.
// Returns what is wrong with it.
std::string root_damage(internal::InputFile& file, const Superblock& block) {
  try {
    const std::string place = "root group";
    check_old_group(file, block, read_object_header(file, block.base, block.root, place), place);
    check_cached_root(file, block);
    return {};
  } catch (const Error& error) {
    return error.info().cause;
  }
}

}  // namespace

FileHandle open_for_reading(const std::string& path) {
  bool grew = false;
  std::string reason;
  {
    internal::InputFile file(path, Access::kRead);
    const Superblock block = check_superblock(file);
    grew = block.end_of_file < file.size();
    reason = root_damage(file, block);
  }
  if (reason.empty()) {
    FileHandle file = open_read_only(path, false, reason);
    // A file that this process has open already can only be opened with the same locking flag.
    if (!file && reason.find("locking flag") != std::string::npos) {
      file = open_read_only(path, true, reason);
    }
    if (file) return file;
  }
  // The superblock is written again when a file is closed: until then it knows a shorter end.
  throw Error(ErrorCode::kDataLoss, path, {},
              (grew ? "not closed by its writer, or damaged: " : "cannot open as HDF5: ") + reason,
              grew ? "write it again" : "copy or convert the file again");
}

}  // namespace shardmill::hdf5
