// SPDX-License-Identifier: Apache-2.0
#include "formats/folder/reader.h"

#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

namespace shardmill::folder {

FolderReader::FolderReader(const std::filesystem::path& root, Bytes index)
    : root_(root.string()), index_(index, root_) {
  info_.layout = layout_name(index_.layout());
  info_.classes = index_.classes();
  info_.warnings = index_.warnings();
  root_fd_ = internal::Descriptor(open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root_fd_.open()) throw system_error(errno, root_, "cannot open the directory");
}

void FolderReader::read(std::uint64_t n, SampleView& out) {
  SHARDMILL_CHECK(n < size());
  const IndexSample& sample = index_.sample(n);
  const auto files = index_.files(sample);
  if (buffers_.size() < files.size()) buffers_.resize(files.size());
  fields_.clear();
  for (std::size_t i = 0; i < files.size(); ++i) {
    fields_.push_back({index_.field(files[i]), read_file(sample, files[i], buffers_[i])});
  }
  if (sample.class_number != kNoClass) add_class(sample);
  out.key = index_.key(sample);
  out.fields = fields_;
}

// Inserts the field `cls` that the directory stands for in its place.
void FolderReader::add_class(const IndexSample& sample) {
  class_text_ = std::to_string(sample.class_number);
  const auto at =
      std::lower_bound(fields_.begin(), fields_.end(), std::string_view("cls"),
                       [](const FieldView& f, std::string_view name) { return f.name < name; });
  fields_.insert(at, {"cls", as_bytes(class_text_)});
}

Bytes FolderReader::read_file(const IndexSample& sample, const IndexFile& file, Buffer& buffer) {
  path_ = index_.path(file);
  const auto fail = [&](ErrorCode code, const std::string& cause) {
    return Error(code, root_ + "/" + path_, sample_place(index_.key(sample), index_.field(file)),
                 cause);
  };
  const auto fail_with = [&](int error, const std::string& what) {
    ErrorInfo info = system_error(error, root_ + "/" + path_, what).info();
    info.place = sample_place(index_.key(sample), index_.field(file));
    return Error(info);
  };
  // A file may have become a pipe since the scan: opening it must not block.
  const internal::Descriptor fd(
      openat(root_fd_.get(), path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.open()) throw fail_with(errno, "cannot open");
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) throw fail_with(errno, "cannot stat");
  if (!S_ISREG(status.st_mode)) throw fail(ErrorCode::kIo, "is no regular file any more");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (buffer.capacity < size) {
    // A byte array of the file's size cannot be had for a file with huge holes.
    buffer.bytes.reset(new (std::nothrow) std::byte[size]);
    buffer.capacity = buffer.bytes ? size : 0;
    if (!buffer.bytes) {
      throw fail(ErrorCode::kResourceExhausted,
                 "no memory for a file of " + std::to_string(size) + " bytes");
    }
  }
  for (std::uint64_t done = 0; done < size;) {
    const ssize_t got = ::read(fd.get(), buffer.bytes.get() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw fail_with(errno, "cannot read");
    if (got == 0) throw fail(ErrorCode::kDataLoss, "file became shorter while it was read");
    done += static_cast<std::uint64_t>(got);
  }
  return {buffer.bytes.get(), size};
}

}  // namespace shardmill::folder
