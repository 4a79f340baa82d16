// SPDX-License-Identifier: Apache-2.0
#include "formats/folder/internal/scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "formats/folder/internal/layout.h"
#include "formats/internal/member_name.h"

namespace shardmill::folder {

namespace {

struct DirDeleter {
  void operator()(DIR* dir) const noexcept { closedir(dir); }
};
using DirPtr = std::unique_ptr<DIR, DirDeleter>;
using LeftOut = std::pair<std::string, std::string_view>;  // name and why

}  // namespace

DirectoryScan::DirectoryScan(const std::filesystem::path& root, internal::WarningCounts& counts)
    : root_(root.string()), counts_(counts) {
  root_fd_ = internal::Descriptor(open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root_fd_.open() && errno == ENOTDIR) {
    throw Error(ErrorCode::kInvalidArgument, root_, {}, "not a directory");
  }
  if (!root_fd_.open()) throw system_error(errno, root_, "cannot open the directory");
  directories_.push_back({{}, 0});
}

std::size_t DirectoryScan::add(std::size_t parent, std::string_view name) {
  std::string path = directories_[parent].path;
  path.append(name).append("/");
  directories_.push_back({std::move(path), parent});
  return directories_.size() - 1;
}

bool DirectoryScan::is_ancestor(std::size_t n, std::uint64_t device,
                                std::uint64_t inode) const noexcept {
  for (;; n = directories_[n].parent) {
    if (directories_[n].device == device && directories_[n].inode == inode) return true;
    if (n == 0) return false;
  }
}

DirectoryScan::Kind DirectoryScan::kind_of(int fd, const char* name, unsigned char type,
                                           std::size_t parent) const {
  if (type == DT_REG) return Kind::kFile;
  if (type == DT_DIR) return Kind::kDirectory;
  if (type != DT_LNK && type != DT_UNKNOWN) return Kind::kOther;
  struct stat status {};
  if (fstatat(fd, name, &status, 0) != 0) {
    if (errno == ENOENT || errno == ELOOP || errno == ENOTDIR) return Kind::kBrokenLink;
    throw system_error(errno, root_ + "/" + directories_[parent].path + name, "cannot stat");
  }
  if (S_ISREG(status.st_mode)) return Kind::kFile;
  if (!S_ISDIR(status.st_mode)) return Kind::kOther;
  return is_ancestor(parent, status.st_dev, status.st_ino) ? Kind::kLoop : Kind::kDirectory;
}

Listing DirectoryScan::list(std::size_t n) {
  const std::string& path = directories_[n].path;
  const std::string full = n == 0 ? root_ : root_ + "/" + path;
  const int fd =
      openat(root_fd_.get(), n == 0 ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const DirPtr dir(fd < 0 ? nullptr : fdopendir(fd));
  struct stat status {};
  if (!dir || fstat(fd, &status) != 0) {
    const int error = errno;
    if (fd >= 0 && !dir) close(fd);
    throw system_error(error, full, "cannot read the directory");
  }
  directories_[n].device = status.st_dev;
  directories_[n].inode = status.st_ino;
  Listing out;
  std::vector<LeftOut> left_out;
  for (errno = 0; const dirent* entry = readdir(dir.get()); errno = 0) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == ".." || (n == 0 && name.starts_with(kOwnPrefix))) continue;
    if (internal::is_junk_name(name)) {
      left_out.push_back({path + entry->d_name, "hidden or system files and directories left out"});
      continue;
    }
    switch (kind_of(fd, entry->d_name, entry->d_type, n)) {
      case Kind::kFile:
        out.files.emplace_back(name);
        break;
      case Kind::kDirectory:
        out.directories.emplace_back(name);
        break;
      case Kind::kLoop:
        left_out.push_back({path + entry->d_name, "links to a directory above left out"});
        break;
      case Kind::kBrokenLink:
        left_out.push_back({path + entry->d_name, "broken links left out"});
        break;
      case Kind::kOther:
        left_out.push_back({path + entry->d_name, "pipes, sockets or devices left out"});
        break;
    }
  }
  if (errno != 0) throw system_error(errno, full, "cannot read the directory");
  // The system's order differs between machines; nothing may depend on it, warnings included.
  std::sort(out.files.begin(), out.files.end());
  std::sort(out.directories.begin(), out.directories.end());
  std::sort(left_out.begin(), left_out.end());
  for (const auto& [name, kind] : left_out) counts_.note(kind, name);
  return out;
}

}  // namespace shardmill::folder
