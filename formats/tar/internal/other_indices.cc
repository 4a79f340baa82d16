// SPDX-License-Identifier: Apache-2.0
#include "formats/tar/internal/other_indices.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include "formats/internal/index_file.h"
#include "formats/internal/input_file.h"
#include "formats/tar/internal/header.h"
#include "formats/tar/internal/sample_rules.h"
#include "formats/tar/internal/walk.h"

namespace shardmill::tar {

namespace fs = std::filesystem;

namespace {

std::string read_all(const fs::path& file) {
  internal::InputFile input(file, Access::kRead);
  return std::string(as_text(input.bytes(0, input.size())));
}

// Takes the next word, up to a space, off the front of `line`.
std::string_view next_word(std::string_view& line) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t end = std::min(line.find(' ', begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

bool parse(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

[[noreturn]] void malformed(const fs::path& file, const std::string& place) {
  throw Error(ErrorCode::kDataLoss, file.string(), place, "malformed index",
              "make it again with the program that made it, or remove it");
}

// One line: `EXTENSION OFFSET SIZE [NAME]` for each member.
std::vector<OtherIndex::Member> parse_members(std::string_view line, bool names,
                                              const fs::path& file, std::size_t number) {
  std::vector<OtherIndex::Member> members;
  while (line.find_first_not_of(' ') != std::string_view::npos) {
    OtherIndex::Member& member = members.emplace_back();
    member.extension = next_word(line);
    const bool good =
        parse(next_word(line), member.data_offset) && parse(next_word(line), member.size);
    if (names) member.name = next_word(line);
    if (!good || member.data_offset % kBlock != 0 || (names && member.name.empty())) {
      malformed(file, "line " + std::to_string(number));
    }
  }
  return members;
}

}  // namespace

OtherIndex read_dali_index(const fs::path& file) {
  const std::string text = read_all(file);
  OtherIndex index;
  index.file = file;
  std::uint64_t count = 0;
  bool names = false;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (++number > 1) {
      if (line.empty() && at >= text.size()) break;
      index.samples.push_back(parse_members(line, names, file, number));
      continue;
    }
    const std::string_view version = next_word(line);
    if (!version.starts_with("v") || !parse(next_word(line), count)) malformed(file, "line 1");
    if (version != "v1.0" && version != "v1.1" && version != "v1.2") {
      throw Error(ErrorCode::kUnsupported, file.string(), "line 1",
                  "an index of version " + escape(version) + "; v1.0 to v1.2 are known",
                  "remove it, or make it again");
    }
    names = index.has_names = version == "v1.2";
    index.kind = "DALI " + std::string(version);
  }
  if (number == 0 || index.samples.size() != count) {
    malformed(file, "it promises " + std::to_string(count) + " samples and has " +
                        std::to_string(index.samples.size()));
  }
  return index;
}

OtherIndex read_energon_index(const fs::path& file) {
  const std::string bytes = read_all(file);
  OtherIndex index;
  index.file = file;
  index.kind = "Energon";
  if (bytes.empty() || bytes.size() % 8 != 0) malformed(file, "its size");
  index.headers.resize(bytes.size() / 8);
  std::memcpy(index.headers.data(), bytes.data(), bytes.size());
  for (std::size_t i = 0; i < index.headers.size(); ++i) {
    const bool ascends = i == 0 || index.headers[i] > index.headers[i - 1];
    if (index.headers[i] % kBlock != 0 || !ascends) {
      malformed(file, "entry " + std::to_string(i));
    }
  }
  return index;
}

std::vector<OtherIndex> neighbour_indices(const fs::path& archive,
                                          std::vector<std::string>& warnings) {
  std::vector<OtherIndex> found;
  const internal::FileStamp stamp = internal::stamp_of(archive);
  fs::path dali = archive;
  dali.replace_extension(".idx");
  fs::path energon = archive.native() + ".idx";
  for (const fs::path& file : {dali, energon}) {
    std::error_code error;
    if (!fs::is_regular_file(file, error)) continue;
    if (internal::stamp_of(file).mtime_ns < stamp.mtime_ns) {
      warnings.push_back(escape(file.filename().string()) +
                         " is older than the archive and is not used");
      continue;
    }
    try {
      found.push_back(file == dali ? read_dali_index(file) : read_energon_index(file));
    } catch (const Error& failure) {
      warnings.push_back(failure.what());
    }
  }
  return found;
}

std::string dali_index(const std::filesystem::path& path) {
  FileInput input(path);
  Walk walk(input);
  SampleRules rules(input.path());
  std::string lines;
  std::string current;
  std::uint64_t samples = 0;
  std::string_view key;
  std::string_view field;
  for (Member member; walk.next(member);) {
    if (!rules.take(member, key, field)) continue;
    if (member.name.find_first_of(" \t\n\v\f\r") != std::string_view::npos) {
      throw Error(ErrorCode::kUnsupported, input.path(), "member \"" + escape(member.name) + "\"",
                  "DALI's index cannot hold names with white space",
                  "rename the file and pack again, or index without --also dali");
    }
    const bool next_sample = samples == 0 || key != current;
    if (next_sample) {
      lines += samples++ == 0 ? "" : "\n";
      current = key;
    } else {
      lines += ' ';
    }
    lines.append(field).append(" ").append(std::to_string(member.data_offset)).append(" ");
    lines.append(std::to_string(member.size)).append(" ").append(member.name);
  }
  return "v1.2 " + std::to_string(samples) + "\n" + lines + (samples == 0 ? "" : "\n");
}

}  // namespace shardmill::tar
