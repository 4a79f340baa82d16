// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/forecast.h"

#include <shardmill/formats/error.h>
#include <sys/statvfs.h>

#include <limits>

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kLookEvery = 16 << 20;
constexpr std::uint64_t kPage = 4096;

constexpr std::uint64_t up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::string mebibytes(std::uint64_t bytes) {
  return std::to_string(bytes >> 20) + "." + std::to_string((bytes & 0xFFFFF) * 10 >> 20) + " MiB";
}

// A value in MessagePack with its names; from 2 KiB on it lies on pages of its own.
std::uint64_t lmdb_bytes(const SampleView& sample) {
  std::uint64_t value = sample.key.size() + 16;
  for (const FieldView& field : sample.fields) value += field.bytes.size() + field.name.size() + 7;
  constexpr std::uint64_t kEntry = 8 + 12 + 2;  // header, key, place in the page
  if (value + kEntry > 2038) return up(value + 16, kPage) + kEntry + 8;
  return value + kEntry + value / 16;
}

}  // namespace

std::uint64_t forecast_sample(const std::string& format, const SampleView& sample) noexcept {
  if (format == "lmdb") return lmdb_bytes(sample);
  std::uint64_t bytes = format == "hdf5" ? sample.key.size() + 8 : 0;
  for (const FieldView& field : sample.fields) {
    const std::uint64_t size = field.bytes.size();
    if (format == "tar") {
      bytes += 512 + up(size, 512);
    } else if (format == "folder") {
      bytes += up(size, kPage);
    } else {
      bytes += field.name == "cls" ? 8 : size + 8;
    }
  }
  return bytes;
}

std::uint64_t forecast_shard(const std::string& format, std::uint64_t bytes) noexcept {
  if (format == "tar") return 6 << 10;  // the end, and half a record
  if (format == "lmdb") return 4 * kPage;
  if (format != "hdf5") return kPage;
  // Byte strings lie in chunks of 1 MiB, of which the last is half empty.
  return bytes < (1 << 20) ? 4 * kPage : 7 << 18;
}

SpaceGuard::SpaceGuard(const fs::path& directory, const Amount& reserve)
    : directory_(fs::absolute(directory)), reserve_(reserve) {
  std::error_code error;
  while (!fs::exists(directory_, error) && directory_.has_relative_path()) {
    directory_ = directory_.parent_path();
  }
}

// A filesystem that does not say counts as boundless.
SpaceGuard::Space SpaceGuard::look() const {
  struct statvfs status {};
  if (statvfs(directory_.c_str(), &status) != 0 || status.f_blocks == 0) {
    return {0, std::numeric_limits<std::uint64_t>::max()};
  }
  const std::uint64_t unit = status.f_frsize;
  return {status.f_blocks * unit, status.f_bavail * unit};
}

void SpaceGuard::check_forecast(std::uint64_t forecast) const {
  const Space space = look();
  const std::uint64_t reserve = reserve_.of(space.total);
  if (space.free > reserve && space.free - reserve >= forecast) return;
  throw Error(ErrorCode::kResourceExhausted, directory_.string(), {},
              "the result needs about " + mebibytes(forecast) + ", " + mebibytes(space.free) +
                  " are free, of which " + mebibytes(reserve) + " are kept (--reserve)",
              "free space, choose another place, or convert fewer samples (--limit)");
}

void SpaceGuard::wrote(std::uint64_t bytes) {
  since_ += bytes;
  if (since_ < kLookEvery) return;
  since_ = 0;
  check();
}

void SpaceGuard::check() const {
  const Space space = look();
  const std::uint64_t reserve = reserve_.of(space.total);
  if (space.free >= reserve) return;
  throw Error(ErrorCode::kResourceExhausted, directory_.string(), {},
              "only " + mebibytes(space.free) + " are free, " + mebibytes(reserve) +
                  " are to be kept (--reserve)",
              "free space, then run again with --resume");
}

}  // namespace shardmill::internal
