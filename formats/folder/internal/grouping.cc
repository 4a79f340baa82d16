// SPDX-License-Identifier: Apache-2.0
#include "formats/folder/internal/grouping.h"

#include <shardmill/formats/error.h>
#include <shardmill/formats/sample.h>

#include <algorithm>
#include <unordered_set>

#include "formats/internal/member_name.h"

namespace shardmill::folder {

namespace {

constexpr std::string_view kNoExtension = "files without an extension left out";

// A file with the stem it shares with the other files of its sample.
struct Stemmed {
  std::string_view stem;
  GroupFile file;
};

// Returns `text` in lower case, its last part spelled as decoders know it.
std::string normalised(std::string_view text, const std::string& path,
                       internal::WarningCounts& counts) {
  std::string field(text);
  internal::lower_case(field);
  const std::size_t last = field.rfind('.') + 1;
  const std::string_view extension = std::string_view(field).substr(last);
  if (extension == "jpeg" || extension == "jpe") field.replace(last, std::string::npos, "jpg");
  if (field != text) counts.note("extensions taken in lower case, jpeg as jpg", path);
  return field;
}

// Returns the stems of files with exactly one dot.
std::unordered_set<std::string_view> plain_stems(const std::vector<std::string>& files) {
  std::unordered_set<std::string_view> stems;
  for (const std::string_view name : files) {
    const std::size_t dot = name.find('.');
    if (dot != std::string_view::npos && dot == name.rfind('.')) stems.insert(name.substr(0, dot));
  }
  return stems;
}

std::vector<Stemmed> split_raw_names(const GroupInput& input, internal::WarningCounts& counts) {
  const auto stems = plain_stems(input.files);
  std::vector<Stemmed> out;
  for (const std::string_view name : input.files) {
    const std::string path = input.directory + std::string(name);
    const std::size_t last = name.rfind('.');
    if (last == std::string_view::npos || last + 1 == name.size()) {
      counts.note(kNoExtension, path);
      continue;
    }
    const std::size_t first = name.find('.');
    // With several dots: a companion such as a.seg.png beside a.jpg, or a name with dots in it.
    const bool companion = first != last && stems.count(name.substr(0, first)) > 0;
    const std::size_t dot = companion ? first : last;
    out.push_back({name.substr(0, dot), {normalised(name.substr(dot + 1), path, counts), name}});
  }
  std::sort(out.begin(), out.end(), [](const Stemmed& a, const Stemmed& b) {
    return a.stem != b.stem ? a.stem < b.stem : a.file.field < b.file.field;
  });
  return out;
}

[[noreturn]] void two_files(const GroupInput& input, std::string_view key, const GroupFile& a,
                            const GroupFile& b) {
  throw Error(ErrorCode::kInvalidArgument, input.root,
              sample_place(input.directory + std::string(key), a.field),
              "two files for one field: " + escape(input.directory + std::string(a.name)) +
                  " and " + escape(input.directory + std::string(b.name)),
              "rename or remove one of them");
}

void check_fields(const GroupInput& input, const Group& group) {
  const auto twice =
      std::adjacent_find(group.files.begin(), group.files.end(),
                         [](const GroupFile& a, const GroupFile& b) { return a.field == b.field; });
  if (twice != group.files.end()) two_files(input, group.key, *twice, *(twice + 1));
}

bool is_plain_image(const GroupFile& file) {
  return is_image_field(file.field) && file.field.find('.') == std::string::npos;
}

// Turns the files of one stem into samples: one, or one per image if there are several.
void add_groups(const GroupInput& input, std::string_view stem, Group all,
                internal::WarningCounts& counts, std::vector<Group>& out) {
  all.key = stem;
  check_fields(input, all);
  if (stem.find('.') != std::string_view::npos) {
    counts.note("names with several dots: dots became '_' in the key",
                input.directory + std::string(all.files.front().name));
    std::replace(all.key.begin(), all.key.end(), '.', '_');
  }
  all.has_image = std::any_of(all.files.begin(), all.files.end(),
                              [](const GroupFile& file) { return is_image_field(file.field); });
  const auto images = std::count_if(all.files.begin(), all.files.end(), is_plain_image);
  if (images < 2) {
    out.push_back(std::move(all));
    return;
  }
  counts.note("names shared by several images: each is a sample, NAME_EXTENSION",
              input.directory + std::string(stem));
  for (const GroupFile& image : all.files) {
    if (!is_plain_image(image)) continue;
    Group one{all.key + "_" + image.field, {}, true};
    for (const GroupFile& file : all.files) {
      if (file.field == image.field || !is_plain_image(file)) one.files.push_back(file);
    }
    out.push_back(std::move(one));
  }
}

}  // namespace

std::vector<Group> group_raw(const GroupInput& input, internal::WarningCounts& counts) {
  const std::vector<Stemmed> files = split_raw_names(input, counts);
  std::vector<Group> out;
  for (std::size_t begin = 0; begin < files.size();) {
    Group all;
    std::size_t end = begin;
    for (; end < files.size() && files[end].stem == files[begin].stem; ++end) {
      all.files.push_back(files[end].file);
    }
    add_groups(input, files[begin].stem, std::move(all), counts, out);
    begin = end;
  }
  return out;
}

std::vector<Group> group_members(const GroupInput& input, internal::WarningCounts& counts) {
  std::vector<Stemmed> files;
  for (const std::string_view name : input.files) {
    std::string_view key;
    std::string_view field;
    if (!split_member_name(name, key, field) || field.empty()) {
      counts.note(kNoExtension, input.directory + std::string(name));
      continue;
    }
    files.push_back({key, {std::string(field), name}});
    internal::lower_case(files.back().file.field);
  }
  std::sort(files.begin(), files.end(), [](const Stemmed& a, const Stemmed& b) {
    return a.stem != b.stem ? a.stem < b.stem : a.file.field < b.file.field;
  });
  std::vector<Group> out;
  for (Stemmed& file : files) {
    if (out.empty() || out.back().key != file.stem) out.push_back({std::string(file.stem), {}});
    out.back().files.push_back(std::move(file.file));
  }
  for (const Group& group : out) check_fields(input, group);
  return out;
}

}  // namespace shardmill::folder
