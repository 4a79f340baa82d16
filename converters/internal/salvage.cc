// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/salvage.h"

#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>

#include "formats/internal/dataset_spec.h"
#include "formats/internal/descriptor.h"
#include "formats/tar/internal/tar_input.h"
#include "formats/tar/internal/walk.h"

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kBlock = 512;

const Format& tar_format() { return find_format("tar"); }

}  // namespace

bool is_damaged_tar(const fs::path& file) {
  try {
    const std::vector<std::byte> index = tar_format().build_index(file, Access::kAuto);
    return false;
  } catch (const Error& error) {
    return error.code() == ErrorCode::kDataLoss;
  }
}

std::vector<fs::path> damaged_tars(const std::string& spec) {
  try {
    const ResolvedSpec resolved = resolve_spec(spec);
    if (resolved.format != &tar_format()) return {};
    if (std::none_of(resolved.shards.begin(), resolved.shards.end(), is_damaged_tar)) return {};
    return resolved.shards;
  } catch (const Error&) {
    return {};  // opening it says what is wrong
  }
}

std::uint64_t whole_samples_end(const fs::path& file) {
  const std::uint64_t size = fs::file_size(file);
  std::uint64_t end = 0;           // of the last whole member
  std::uint64_t sample_begin = 0;  // of the last sample
  std::string last_key;
  std::set<std::string> fields;
  std::set<std::string> fields_before;
  try {
    tar::FileInput input(file);
    tar::Walk walk(input);
    tar::Member member;
    while (walk.next(member)) {
      if (member.size > size || member.data_offset > size - member.size) break;
      std::string_view key;
      std::string_view field;
      if (member.regular() && split_member_name(member.name, key, field)) {
        if (key != last_key) {
          if (!fields.empty()) fields_before = std::move(fields);
          fields.clear();
          sample_begin = end;
          last_key = key;
        }
        fields.emplace(field);
      }
      end = std::min(size, member.data_offset + (member.size + kBlock - 1) / kBlock * kBlock);
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDataLoss) throw;
  }
  const bool cut =
      fields.size() < fields_before.size() &&
      std::includes(fields_before.begin(), fields_before.end(), fields.begin(), fields.end());
  return cut ? sample_begin : end;
}

void end_tar(const fs::path& file, std::uint64_t bytes) {
  const Descriptor fd(open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.open()) throw system_error(errno, file.string(), "cannot open");
  const std::uint64_t padded = (bytes + kBlock - 1) / kBlock * kBlock + 2 * kBlock;
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      ftruncate(fd.get(), static_cast<off_t>(padded)) != 0) {
    throw system_error(errno, file.string(), "cannot set the length");
  }
}

}  // namespace shardmill::internal
