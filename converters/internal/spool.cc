// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/spool.h"

#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <shardmill/formats/stream.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "converters/internal/salvage.h"
#include "formats/internal/descriptor.h"
#include "formats/internal/output_file.h"
#include "formats/internal/stream_spec.h"

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kPiece = 1 << 20;

void write_all(int fd, Bytes bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      throw system_error(errno, path, "cannot write",
                         "make room for the unpacked source, or unpack it elsewhere first");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

// "train.tar.gz" becomes "train".
std::string plain_name(const fs::path& path) {
  const std::string name = path == "-" ? "stdin" : path.filename().string();
  const std::size_t dot = name.find('.', 1);
  return name.substr(0, dot);
}

}  // namespace

void Spool::make_folder(const fs::path& destination) {
  if (!folder_.empty()) return;
  const fs::path named = destination.has_filename() ? destination : destination.parent_path();
  folder_ = temporary_name(fs::absolute(named).native() + "-unpacked");
  fs::remove_all(folder_);  // of a run that was killed
  std::error_code error;
  if (!fs::create_directories(folder_, error)) {
    throw system_error(error.value(), folder_.string(), "cannot create");
  }
}

Spool::Spool(std::vector<std::string>& sources, const fs::path& destination,
             const Observer& observer, bool mend) {
  std::vector<std::string> plain;
  std::size_t number = 0;
  try {
    for (const std::string& source : sources) {
      const std::vector<fs::path> packed = stream_paths(source);
      for (const fs::path& path : packed) {
        make_folder(destination);
        plain.push_back(unpack(path, number++, observer, mend));
      }
      if (!packed.empty()) continue;
      const std::vector<fs::path> shards = mend ? damaged_tars(source) : std::vector<fs::path>();
      if (shards.empty()) plain.push_back(source);
      for (const fs::path& shard : shards) {
        if (!is_damaged_tar(shard)) {
          plain.push_back(shard.string());
          continue;
        }
        make_folder(destination);
        plain.push_back(unpack(shard, number++, observer, mend));
      }
    }
  } catch (...) {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove_all(folder_, ignored);
    throw;
  }
  sources = std::move(plain);
}

Spool::~Spool() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

std::string Spool::unpack(const fs::path& path, std::size_t number, const Observer& observer,
                          bool mend) {
  // In a folder of its own: names of sources may come twice.
  const fs::path folder = folder_ / std::to_string(number);
  fs::create_directory(folder);
  const fs::path file = folder / (plain_name(path) + ".tar");
  const Descriptor fd(open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.open()) throw system_error(errno, file.string(), "cannot create");
  const auto source = open_source(path);
  std::vector<std::byte> piece(kPiece);
  Progress progress{"unpacking", 0, 0, 0, 0};
  for (;;) {
    std::size_t got = 0;
    try {
      got = source->read(piece);
    } catch (const Error& error) {
      if (!mend || error.code() != ErrorCode::kDataLoss) throw;  // else that is where it ends
    }
    if (got == 0) break;
    write_all(fd.get(), Bytes(piece).first(got), file.string());
    progress.bytes += got;
    if (observer.progress) observer.progress(progress);
    if (observer.stop.stop_requested()) throw Interrupted();
  }
  if (mend && is_damaged_tar(file)) {
    const std::uint64_t end = whole_samples_end(file);
    end_tar(file, end);
    if (observer.warning) {
      observer.warning(escape(path.string()) + " is cut off or damaged: samples behind byte " +
                       std::to_string(end) + " are left out");
    }
  }
  return file.string();
}

}  // namespace shardmill::internal
