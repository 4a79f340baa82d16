// SPDX-License-Identifier: Apache-2.0
#include "formats/folder/reader.h"

#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

namespace shardmill::folder {

namespace {

constexpr std::uint64_t kSmallFile = 16 << 10;  // reading is quicker than mapping

}  // namespace

FolderReader::FolderReader(const std::filesystem::path& root, Bytes index)
    : root_(root.string()), index_(index, root_) {
  info_.layout = layout_name(index_.layout());
  info_.classes = index_.classes();
  info_.warnings = index_.warnings();
  root_fd_ = internal::Descriptor(open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root_fd_.open()) throw system_error(errno, root_, "cannot open the directory");
}

FolderReader::Mapping::~Mapping() {
  if (!bytes.empty()) munmap(const_cast<std::byte*>(bytes.data()), bytes.size());
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
  finish(sample, out);
}

std::string FolderReader::where(std::uint64_t n, std::string_view field) const {
  for (const IndexFile& file : index_.files(index_.sample(n))) {
    if (index_.field(file) == field) return "file " + std::string(index_.path(file));
  }
  return {};
}

void FolderReader::peek(std::uint64_t n, SampleView& out) {
  SHARDMILL_CHECK(n < size());
  const IndexSample& sample = index_.sample(n);
  const auto files = index_.files(sample);
  if (buffers_.size() < files.size()) buffers_.resize(files.size());
  fields_.clear();
  mappings_.clear();
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::uint64_t size = 0;
    const internal::Descriptor fd = open_file(sample, files[i], size);
    Bytes bytes;
    if (size <= kSmallFile) {
      bytes = read_all(fd.get(), size, sample, files[i], buffers_[i]);
    } else {
      void* map = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
      if (map == MAP_FAILED) {
        fail(system_error(errno, {}, "cannot map into memory").info(), sample, files[i]);
      }
      madvise(map, size, MADV_RANDOM);
      bytes = {static_cast<const std::byte*>(map), size};
      mappings_.emplace_back().bytes = bytes;
    }
    fields_.push_back({index_.field(files[i]), bytes});
  }
  finish(sample, out);
}

void FolderReader::finish(const IndexSample& sample, SampleView& out) {
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

void FolderReader::fail(ErrorInfo info, const IndexSample& sample, const IndexFile& file) const {
  info.path = root_ + "/" + path_;
  info.place = sample_place(index_.key(sample), index_.field(file));
  throw Error(std::move(info));
}

internal::Descriptor FolderReader::open_file(const IndexSample& sample, const IndexFile& file,
                                             std::uint64_t& size) {
  path_ = index_.path(file);
  // A file may have become a pipe since the scan: opening it must not block.
  internal::Descriptor fd(openat(root_fd_.get(), path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.open()) fail(system_error(errno, {}, "cannot open").info(), sample, file);
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) {
    fail(system_error(errno, {}, "cannot stat").info(), sample, file);
  }
  if (!S_ISREG(status.st_mode)) {
    fail({ErrorCode::kIo, {}, {}, "is no regular file any more", {}}, sample, file);
  }
  size = static_cast<std::uint64_t>(status.st_size);
  return fd;
}

Bytes FolderReader::read_file(const IndexSample& sample, const IndexFile& file, Buffer& buffer) {
  std::uint64_t size = 0;
  const internal::Descriptor fd = open_file(sample, file, size);
  return read_all(fd.get(), size, sample, file, buffer);
}

Bytes FolderReader::read_all(int fd, std::uint64_t size, const IndexSample& sample,
                             const IndexFile& file, Buffer& buffer) {
  if (buffer.capacity < size) {
    // A byte array of the file's size cannot be had for a file with huge holes.
    buffer.bytes.reset(new (std::nothrow) std::byte[size]);
    buffer.capacity = buffer.bytes ? size : 0;
    if (!buffer.bytes) {
      fail({ErrorCode::kResourceExhausted,
            {},
            {},
            "no memory for a file of " + std::to_string(size) + " bytes",
            {}},
           sample, file);
    }
  }
  for (std::uint64_t done = 0; done < size;) {
    const ssize_t got = ::read(fd, buffer.bytes.get() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(system_error(errno, {}, "cannot read").info(), sample, file);
    if (got == 0) {
      fail({ErrorCode::kDataLoss, {}, {}, "file became shorter while it was read", {}}, sample,
           file);
    }
    done += static_cast<std::uint64_t>(got);
  }
  return {buffer.bytes.get(), size};
}

}  // namespace shardmill::folder
