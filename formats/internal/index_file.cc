// SPDX-License-Identifier: Apache-2.0
#include "formats/internal/index_file.h"

#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "formats/internal/descriptor.h"
#include "formats/internal/input_file.h"
#include "formats/internal/output_file.h"

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMagic = 0x3130584449485321;  // "!SHIDX01"
constexpr std::byte kZeros[8] = {};

struct Head {
  std::uint64_t magic = kMagic;
  std::uint64_t size = 0;
  std::uint64_t entries = 0;
  std::uint64_t table_hash = 0;  // XXH3-64 of the table
};

std::uint64_t hash_of(Bytes bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

constexpr std::uint64_t aligned(std::uint64_t n) { return (n + 7) / 8 * 8; }

// Layout, number of classes, classes, warnings: each ended by NUL.
std::string pack_info(const ShardInfo& info) {
  std::string text;
  append_item(text, info.layout);
  append_item(text, std::to_string(info.classes.size()));
  for (const std::string& name : info.classes) append_item(text, name);
  for (const std::string& warning : info.warnings) append_item(text, warning);
  return text;
}

ShardInfo unpack_info(std::string_view text) {
  std::vector<std::string> items = split_items(text);
  ShardInfo info;
  if (items.size() < 2) return info;
  info.layout = items[0];
  const std::size_t classes =
      std::min<std::size_t>(std::strtoull(items[1].c_str(), nullptr, 10), items.size() - 2);
  const auto middle = items.begin() + 2 + static_cast<std::ptrdiff_t>(classes);
  info.classes.assign(items.begin() + 2, middle);
  info.warnings.assign(middle, items.end());
  return info;
}

void write_aligned(OutputFile& out, Bytes bytes) {
  out.write(bytes);
  out.write({kZeros, aligned(bytes.size()) - bytes.size()});
}

}  // namespace

FileStamp stamp_of(const fs::path& file) noexcept {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) return {};
  return {
      static_cast<std::uint64_t>(status.st_size),
      static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec};
}

fs::path sidecar_path(const fs::path& shard) { return shard.native() + ".index"; }

void write_index_file(const fs::path& file, std::span<const IndexEntry> entries) {
  std::vector<IndexFile::Stored> table;
  std::vector<std::string> infos;
  Head head;
  head.entries = entries.size();
  head.size = sizeof head + entries.size() * sizeof(IndexFile::Stored);
  for (const IndexEntry& entry : entries) {
    const std::string& info = infos.emplace_back(pack_info(entry.info));
    const std::uint64_t info_offset = head.size;
    const std::uint64_t index_offset = info_offset + aligned(info.size());
    table.push_back({entry.samples, entry.stamp.size, entry.stamp.mtime_ns, info_offset,
                     info.size(), index_offset, entry.index.size(), hash_of(as_bytes(info)),
                     hash_of(entry.index)});
    head.size = index_offset + aligned(entry.index.size());
  }
  const Bytes rows = std::as_bytes(std::span<const IndexFile::Stored>(table));
  head.table_hash = hash_of(rows);
  OutputFile out(file);
  out.write(std::as_bytes(std::span<const Head>(&head, 1)));
  out.write(rows);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    write_aligned(out, as_bytes(infos[i]));
    write_aligned(out, entries[i].index);
  }
  out.close();
}

IndexFile::IndexFile(const fs::path& file) : path_(file.string()), stamp_(stamp_of(file)) {
  open();
}

IndexFile::~IndexFile() {
  if (mapped_) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void IndexFile::open() {
  if (on_network_filesystem(path_)) {
    InputFile input(path_, Access::kRead);
    const Bytes all = input.bytes(0, input.size());
    owned_.resize(all.size() / 8);
    if (!owned_.empty()) std::memcpy(owned_.data(), all.data(), owned_.size() * 8);
    bytes_ = std::as_bytes(std::span<const std::uint64_t>(owned_));
  } else {
    const Descriptor fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd.open()) throw system_error(errno, path_, "cannot open");
    struct stat status {};
    if (fstat(fd.get(), &status) != 0) throw system_error(errno, path_, "cannot stat");
    const auto size = static_cast<std::uint64_t>(status.st_size);
    if (!S_ISREG(status.st_mode) || size < sizeof(Head)) damaged("it is cut off");
    void* map = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
    if (map == MAP_FAILED) throw system_error(errno, path_, "cannot map into memory");
    bytes_ = {static_cast<const std::byte*>(map), size};
    mapped_ = true;
  }
  Head head;
  try {
    if (bytes_.size() < sizeof head) damaged("it is cut off");
    std::memcpy(&head, bytes_.data(), sizeof head);
    if (head.magic != kMagic) damaged("it is none, or of another version");
    if (head.size != bytes_.size() ||
        head.entries > (bytes_.size() - sizeof head) / sizeof(Stored)) {
      damaged("it is cut off");
    }
    entries_ = {reinterpret_cast<const Stored*>(bytes_.data() + sizeof head), head.entries};
    if (hash_of(std::as_bytes(entries_)) != head.table_hash) {
      damaged("the checksum of its table does not fit");
    }
  } catch (...) {
    if (mapped_) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
    throw;
  }
}

void IndexFile::damaged(const std::string& cause) const {
  throw Error(ErrorCode::kDataLoss, path_, {}, "damaged index file: " + cause,
              "make it again with shardmill index");
}

Bytes IndexFile::piece(std::uint64_t offset, std::uint64_t size) const {
  if (offset % 8 != 0 || offset > bytes_.size() || size > bytes_.size() - offset) {
    damaged("an index lies outside");
  }
  return bytes_.subspan(offset, size);
}

IndexEntry IndexFile::entry(std::size_t i) const {
  const Stored& stored = entries_[i];
  const Bytes info = piece(stored.info_offset, stored.info_size);
  if (hash_of(info) != stored.info_hash) damaged("the checksum of an entry does not fit");
  return {stored.samples,
          {stored.file_size, stored.mtime_ns},
          unpack_info(as_text(info)),
          piece(stored.index_offset, stored.index_size)};
}

void IndexFile::verify(std::size_t i) const {
  const Bytes index = piece(entries_[i].index_offset, entries_[i].index_size);
  if (hash_of(index) != entries_[i].index_hash) {
    damaged("the checksum of an index does not fit");
  }
}

}  // namespace shardmill::internal
