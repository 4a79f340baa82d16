// SPDX-License-Identifier: Apache-2.0
#include "formats/folder/writer.h"

#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>

#include "formats/folder/internal/layout.h"

namespace shardmill::folder {

namespace {

namespace fs = std::filesystem;

void write_all(int fd, Bytes bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw system_error(errno, path, "cannot write");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

internal::Descriptor open_directory(const fs::path& path) {
  internal::Descriptor fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.open()) throw system_error(errno, path.string(), "cannot open the directory");
  return fd;
}

// Moves `name` from one directory to another; never replaces what is there.
void move_entry(int from_fd, int to_fd, const std::string& name, const fs::path& path) {
  if (renameat2(from_fd, name.c_str(), to_fd, name.c_str(), RENAME_NOREPLACE) == 0) return;
  int error = errno;
  // Some filesystems do not know the flag; write() has looked for the name before.
  if (error == EINVAL || error == ENOSYS) {
    if (renameat(from_fd, name.c_str(), to_fd, name.c_str()) == 0) return;
    error = errno;
  }
  throw system_error(error, (path / name).string(), "cannot move the complete file here",
                     "remove what is there, then convert again");
}

}  // namespace

FolderWriter::FolderWriter(const fs::path& path) : path_(path) {
  created_ = mkdir(path.c_str(), 0777) == 0;
  if (!created_ && errno != EEXIST) throw system_error(errno, path.string(), "cannot create");
  std::error_code error;
  if (fs::exists(path / kMarkName, error)) {
    throw Error(ErrorCode::kInvalidArgument, path.string(), {}, "holds a folder dataset already",
                "choose another directory, or remove this one");
  }
  const fs::path stage = path / kStageName;
  fs::remove_all(stage, error);  // of a writer that died
  if (mkdir(stage.c_str(), 0777) != 0) throw system_error(errno, stage.string(), "cannot create");
  root_fd_ = open_directory(path);
  stage_fd_ = open_directory(stage);
}

FolderWriter::~FolderWriter() {
  if (!stage_fd_.open()) return;
  std::error_code ignored;
  fs::remove_all(path_ / kStageName, ignored);
  if (created_) rmdir(path_.c_str());
}

void FolderWriter::fail(int error, std::string_view key, const std::string& what) const {
  ErrorInfo info = system_error(error, path_.string(), what).info();
  info.place = sample_place(key);
  throw Error(info);
}

void FolderWriter::write(const SampleView& sample) {
  internal::plan_members(sample, path_.string(), members_);
  names_.resize(members_.size());
  for (std::size_t i = 0; i < members_.size(); ++i) {
    names_[i].assign(sample.key).append(".").append(members_[i].field);
  }
  check_names(sample);
  for (const std::string& name : names_) check_free(sample.key, name);
  make_directories(sample.key);
  if (!keys_.insert(sample.key)) {
    throw Error(ErrorCode::kInvalidArgument, path_.string(), sample_place(sample.key),
                "duplicate key", "rename the sample");
  }
  for (std::size_t i = 0; i < members_.size(); ++i) {
    try {
      write_file(names_[i], members_[i]);
    } catch (...) {
      // A sample is there as a whole or not at all.
      for (std::size_t done = 0; done < i; ++done)
        unlinkat(stage_fd_.get(), names_[done].c_str(), 0);
      throw;
    }
  }
}

// Throws for names that readers leave out or that no filesystem takes.
void FolderWriter::check_names(const SampleView& sample) {
  const auto refuse = [&](const std::string& cause) {
    throw Error(ErrorCode::kUnsupported, path_.string(), sample_place(sample.key), cause,
                "rename the sample, or choose a format that stores keys apart (lmdb, hdf5)");
  };
  for (const std::string& name : names_) {
    if (name.size() >= PATH_MAX) refuse("the name is longer than a path may be");
    if (is_dataset_file(name)) refuse("the name " + name + " is kept for the dataset itself");
    for (std::size_t begin = 0; begin <= name.size();) {
      const std::size_t end = std::min(name.find('/', begin), name.size());
      const std::string_view part = std::string_view(name).substr(begin, end - begin);
      if (internal::is_junk_name(part)) refuse("readers leave out hidden and system names");
      if (part.size() > NAME_MAX) {
        refuse("a part of the name has " + std::to_string(part.size()) + " bytes, at most " +
               std::to_string(NAME_MAX) + " fit");
      }
      begin = end + 1;
    }
  }
}

// Throws if the first part of `name` is in PATH already.
void FolderWriter::check_free(std::string_view key, const std::string& name) {
  const std::string first = name.substr(0, name.find('/'));
  if (first == last_free_) return;
  struct stat status {};
  if (fstatat(root_fd_.get(), first.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
    throw Error(ErrorCode::kInvalidArgument, (path_ / first).string(), sample_place(key),
                "exists already", "choose an empty directory");
  }
  if (errno != ENOENT) fail(errno, key, "cannot look for " + escape(first));
  last_free_ = first;
}

void FolderWriter::make_directories(std::string_view key) {
  const std::size_t last = key.rfind('/');
  if (last == std::string_view::npos || key.substr(0, last) == last_directory_) return;
  for (std::size_t end = key.find('/'); end != std::string_view::npos;
       end = key.find('/', end + 1)) {
    const std::string directory(key.substr(0, end));
    if (mkdirat(stage_fd_.get(), directory.c_str(), 0777) == 0) continue;
    const int error = errno;
    struct stat status {};
    if (error != EEXIST) fail(error, key, "cannot create the directory " + escape(directory));
    if (fstatat(stage_fd_.get(), directory.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISDIR(status.st_mode)) {
      throw Error(ErrorCode::kUnsupported, path_.string(), sample_place(key),
                  "needs a directory " + escape(directory) + ", but this is another sample's file",
                  "rename the sample");
    }
  }
  last_directory_ = key.substr(0, last);
}

void FolderWriter::write_file(std::string_view name, const internal::MemberValue& member) {
  const std::string text(name);
  const int fd = openat(stage_fd_.get(), text.c_str(),
                        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0 && errno == EEXIST) {
    throw Error(ErrorCode::kUnsupported, path_.string(), "file " + escape(name),
                "another sample has a file or directory of this name", "rename the sample");
  }
  const std::string path = (path_ / text).string();
  if (fd < 0) throw system_error(errno, path, "cannot create");
  try {
    write_all(fd, as_bytes(member.header), path);
    write_all(fd, member.bytes, path);
  } catch (...) {
    ::close(fd);
    unlinkat(stage_fd_.get(), text.c_str(), 0);
    throw;
  }
  if (::close(fd) != 0) throw system_error(errno, path, "cannot write");
}

void FolderWriter::close() {
  const fs::path stage = path_ / kStageName;
  std::vector<std::string> entries;
  for (const auto& entry : fs::directory_iterator(stage)) {
    entries.push_back(entry.path().filename().string());
  }
  std::sort(entries.begin(), entries.end());
  // The mark comes last: without it, a folder with a stage in it is known to be incomplete.
  const std::string mark(kMarkName);
  const int mark_fd = openat(stage_fd_.get(), mark.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (mark_fd < 0) throw system_error(errno, stage.string(), "cannot create the mark");
  ::close(mark_fd);
  entries.push_back(mark);
  // One call for all files: fsync for each of a million would take hours on a disk.
  if (syncfs(stage_fd_.get()) != 0) throw system_error(errno, path_.string(), "cannot sync");
  for (const std::string& name : entries) move_entry(stage_fd_.get(), root_fd_.get(), name, path_);
  stage_fd_.reset();
  if (rmdir(stage.c_str()) != 0) throw system_error(errno, stage.string(), "cannot remove");
  if (fsync(root_fd_.get()) != 0 && errno != EINVAL && errno != ENOTSUP) {
    throw system_error(errno, path_.string(), "cannot sync");
  }
}

}  // namespace shardmill::folder
