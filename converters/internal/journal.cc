// SPDX-License-Identifier: Apache-2.0
#include "converters/internal/journal.h"

#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "converters/internal/working_files.h"

namespace shardmill::internal {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

constexpr std::size_t kSumDigits = 16;

std::string sum_of(std::string_view line) {
  char digits[kSumDigits + 1];
  std::snprintf(digits, sizeof digits, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(line.data(), line.size())));
  return digits;
}

void sync_directory(const fs::path& directory) {
  const Descriptor fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.open()) (void)fsync(fd.get());
}

}  // namespace

std::string FinishedShard::text() const {
  Json json = {{"shard", number},          {"url", entry.url},
               {"samples", entry.samples}, {"filesize", entry.filesize},
               {"xxh3", entry.xxh3},       {"bytes", bytes},
               {"digest", digest.hex()}};
  for (const SkippedSample& sample : skipped) {
    json["skipped"].push_back(
        {escape(sample.path), escape(sample.key), escape(sample.field), escape(sample.cause)});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

FinishedShard FinishedShard::parse(std::string_view line) {
  FinishedShard shard;
  try {
    const Json json = Json::parse(line);
    shard.number = json.at("shard").get<std::size_t>();
    shard.entry = {json.at("url").get<std::string>(), json.at("samples").get<std::uint64_t>(),
                   json.at("filesize").get<std::uint64_t>(), json.at("xxh3").get<std::string>()};
    shard.bytes = json.at("bytes").get<std::uint64_t>();
    shard.digest = Digest::from_hex(json.at("digest").get<std::string>());
    for (const Json& sample : json.value("skipped", Json::array())) {
      shard.skipped.push_back({sample.at(0).get<std::string>(), sample.at(1).get<std::string>(),
                               sample.at(2).get<std::string>(), sample.at(3).get<std::string>()});
    }
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kDataLoss, {}, {}, std::string("malformed journal: ") + error.what());
  }
  return shard;
}

Journal::Journal(const fs::path& file) : path_(file.string()) {
  // What was cut off by a crash must not become part of the next line.
  const std::vector<std::string> whole = read(file);
  std::size_t bytes = 0;
  for (const std::string& line : whole) bytes += kSumDigits + 1 + line.size() + 1;
  fd_ = Descriptor(open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd_.open()) throw system_error(errno, path_, "cannot open the journal");
  if (ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0) {
    throw system_error(errno, path_, "cannot mend the journal");
  }
  sync_directory(file.parent_path());
}

void Journal::append(std::string_view line) {
  const std::string text = sum_of(line) + " " + std::string(line) + "\n";
  const off_t before = lseek(fd_.get(), 0, SEEK_END);
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t written = write(fd_.get(), left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      // Half a line would hide those after it.
      if (ftruncate(fd_.get(), before) != 0) throw system_error(errno, path_, "cannot mend");
      throw system_error(error, path_, "cannot write");
    }
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  if (fsync(fd_.get()) != 0) throw system_error(errno, path_, "cannot sync");
}

std::vector<std::string> Journal::read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream all;
  if (in) all << in.rdbuf();
  const std::string text = all.str();
  std::vector<std::string> lines;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos || end - begin <= kSumDigits) break;
    const std::string_view line =
        std::string_view(text).substr(begin + kSumDigits + 1, end - begin - kSumDigits - 1);
    if (text.compare(begin, kSumDigits, sum_of(line)) != 0) break;
    lines.emplace_back(line);
    begin = end + 1;
  }
  return lines;
}

JournalState read_journals(const fs::path& directory) {
  JournalState state;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (!entry.path().filename().native().starts_with(kJournalPrefix)) continue;
    for (const std::string& line : Journal::read(entry.path())) {
      int rank = 0;
      int size = 0;
      if (std::sscanf(line.c_str(), "rank %d of %d", &rank, &size) == 2) {
        state.arrived.emplace(rank, size);
        continue;
      }
      FinishedShard shard = FinishedShard::parse(line);
      const std::size_t number = shard.number;
      state.finished[number] = std::move(shard);
    }
  }
  return state;
}

std::string arrival_line(int rank, int world_size) {
  return "rank " + std::to_string(rank) + " of " + std::to_string(world_size);
}

}  // namespace shardmill::internal
