// SPDX-License-Identifier: Apache-2.0
#include "formats/folder/internal/index.h"

#include <shardmill/formats/error.h>
#include <shardmill/formats/manifest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "formats/folder/internal/grouping.h"
#include "formats/folder/internal/scan.h"
#include "formats/internal/member_name.h"

namespace shardmill::folder {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMagic = 0x3130444C4F464853;  // "SHFOLD01"
constexpr std::uint64_t kLongestManifest = 64 << 20;

enum Section : std::size_t { kHead, kSamples, kFiles, kText, kFields, kClasses, kWarnings, kCount };

// True if the folder is a dataset that shardmill wrote: FolderWriter's mark, or a manifest.
bool is_own(const fs::path& root) {
  std::error_code error;
  if (fs::exists(root / kMarkName, error)) return true;
  const fs::path manifest = root / kManifestName;
  if (!fs::is_regular_file(manifest, error)) return false;
  if (const auto size = fs::file_size(manifest, error); error || size > kLongestManifest) {
    return false;
  }
  std::ifstream in(manifest, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return false;
  const auto format = json.find("format");
  return format != json.end() && *format == "folder" && json.contains("shardlist");
}

class Builder {
 public:
  explicit Builder(const fs::path& root) : root_(root.string()), scan_(root, counts_) {}

  std::vector<std::byte> build(std::optional<Layout> layout);

 private:
  void scan_below(std::size_t directory, std::uint32_t class_number);
  void add_files(const std::string& directory, const std::vector<std::string>& files,
                 std::uint32_t class_number);
  void add_sample(const std::string& directory, const Group& group, std::uint32_t class_number);
  void scan_classes(const Listing& root);
  void drop_samples_without_image();
  void warn_of_empty_classes();
  void sort_samples();
  std::uint32_t field_number(const std::string& field);
  std::string_view key(const IndexSample& sample) const {
    return std::string_view(text_).substr(sample.key, sample.key_length);
  }
  std::string_view first_path(const IndexSample& sample) const {
    const IndexFile& file = files_[sample.first_file];
    return std::string_view(text_).substr(file.path, file.path_length);
  }
  std::vector<std::byte> serialise() const;

  std::string root_;
  internal::WarningCounts counts_;
  DirectoryScan scan_;
  Layout layout_ = Layout::kFlat;
  std::vector<IndexSample> samples_;
  std::vector<IndexFile> files_;
  std::string text_;
  std::vector<std::string> fields_;
  std::unordered_map<std::string, std::uint32_t> field_numbers_;
  std::vector<std::string> classes_;
  std::vector<std::string> warnings_;
};

std::vector<std::byte> Builder::build(std::optional<Layout> layout) {
  if (fs::exists(fs::path(root_) / kStageName) && !fs::exists(fs::path(root_) / kMarkName)) {
    throw Error(ErrorCode::kDataLoss, root_, {},
                "a writer did not finish here: " + std::string(kStageName) + " is left",
                "convert again, or remove " + std::string(kStageName));
  }
  Listing root = scan_.list(0);
  if (layout) {
    layout_ = *layout;
  } else if (is_own(root_)) {
    layout_ = Layout::kShardmill;
  } else if (!root.directories.empty()) {
    layout_ = Layout::kClassPerDirectory;
  }
  if (layout_ == Layout::kShardmill) {
    std::erase_if(root.files, [](const std::string& name) { return is_dataset_file(name); });
  }
  if (layout_ == Layout::kClassPerDirectory) {
    scan_classes(root);
  } else {
    add_files({}, root.files, kNoClass);
    for (const std::string& name : root.directories) {
      scan_below(scan_.add(0, name), kNoClass);
    }
  }
  sort_samples();
  return serialise();
}

void Builder::scan_classes(const Listing& root) {
  for (const std::string& name : root.files) {
    counts_.note("files beside the class directories left out", name);
  }
  for (const std::string& name : root.directories) {
    classes_.push_back(name);
    scan_below(scan_.add(0, name), static_cast<std::uint32_t>(classes_.size() - 1));
  }
  drop_samples_without_image();
  warn_of_empty_classes();
}

void Builder::scan_below(std::size_t directory, std::uint32_t class_number) {
  for (std::vector<std::size_t> waiting = {directory}; !waiting.empty();) {
    const std::size_t next = waiting.back();
    waiting.pop_back();
    const Listing listing = scan_.list(next);
    add_files(scan_.path(next), listing.files, class_number);
    for (const std::string& name : listing.directories) waiting.push_back(scan_.add(next, name));
  }
}

void Builder::add_files(const std::string& directory, const std::vector<std::string>& files,
                        std::uint32_t class_number) {
  const GroupInput input{root_, directory, files};
  const std::vector<Group> groups =
      layout_ == Layout::kShardmill ? group_members(input, counts_) : group_raw(input, counts_);
  for (const Group& group : groups) add_sample(directory, group, class_number);
}

void Builder::add_sample(const std::string& directory, const Group& group,
                         std::uint32_t class_number) {
  IndexSample sample;
  sample.first_file = files_.size();
  sample.files = static_cast<std::uint32_t>(group.files.size());
  sample.has_image = group.has_image ? 1 : 0;
  sample.class_number = class_number;
  for (const GroupFile& file : group.files) {
    files_.push_back({text_.size(), static_cast<std::uint32_t>(directory.size() + file.name.size()),
                      field_number(file.field)});
    text_.append(directory).append(file.name);
    if (file.field == "cls") sample.class_number = kNoClass;  // its own label counts
  }
  sample.key_length = static_cast<std::uint32_t>(directory.size() + group.key.size());
  if (group.files.front().name.starts_with(group.key)) {
    sample.key = files_[sample.first_file].path;
  } else {
    sample.key = text_.size();
    text_.append(directory).append(group.key);
  }
  samples_.push_back(sample);
}

std::uint32_t Builder::field_number(const std::string& field) {
  const auto [at, added] =
      field_numbers_.try_emplace(field, static_cast<std::uint32_t>(fields_.size()));
  if (added) fields_.push_back(field);
  return at->second;
}

// Among images, what has no image is a readme or a list, not a sample.
void Builder::drop_samples_without_image() {
  const auto with_image = [](const IndexSample& sample) { return sample.has_image != 0; };
  if (std::none_of(samples_.begin(), samples_.end(), with_image)) return;
  std::erase_if(samples_, [&](const IndexSample& sample) {
    if (with_image(sample)) return false;
    counts_.note("names without an image among images left out", first_path(sample));
    return true;
  });
}

void Builder::warn_of_empty_classes() {
  std::vector<bool> used(classes_.size());
  for (const IndexSample& sample : samples_) {
    const std::string_view name = first_path(sample);
    const auto at =
        std::lower_bound(classes_.begin(), classes_.end(), name.substr(0, name.find('/')));
    used[static_cast<std::size_t>(at - classes_.begin())] = true;
  }
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    if (used[i]) continue;
    warnings_.push_back("class directory \"" + escape(classes_[i]) +
                        "\" holds no samples; it keeps its number " + std::to_string(i));
  }
}

void Builder::sort_samples() {
  std::sort(samples_.begin(), samples_.end(),
            [this](const IndexSample& a, const IndexSample& b) { return key(a) < key(b); });
  const auto twice = std::adjacent_find(
      samples_.begin(), samples_.end(),
      [this](const IndexSample& a, const IndexSample& b) { return key(a) == key(b); });
  if (twice == samples_.end()) return;
  throw Error(ErrorCode::kInvalidArgument, root_, sample_place(key(*twice)),
              "two files get one key: " + escape(first_path(*twice)) + " and " +
                  escape(first_path(*(twice + 1))),
              "rename one of them");
}

std::vector<std::byte> Builder::serialise() const {
  const IndexHead head{layout_};
  std::string fields;
  for (const std::string& field : fields_) internal::append_item(fields, field);
  std::string classes;
  for (const std::string& name : classes_) internal::append_item(classes, name);
  std::string warnings;
  for (const std::string& line : counts_.lines()) internal::append_item(warnings, line);
  for (const std::string& line : warnings_) internal::append_item(warnings, line);
  internal::FlatIndexWriter writer(kMagic);
  writer.add(std::span<const IndexHead>(&head, 1));
  writer.add(std::span<const IndexSample>(samples_));
  writer.add(std::span<const IndexFile>(files_));
  writer.add(text_);
  writer.add(fields);
  writer.add(classes);
  writer.add(warnings);
  return writer.finish();
}

}  // namespace

bool is_dataset_file(std::string_view name) noexcept {
  if (name == kManifestName) return true;
  if (!name.ends_with(".sum") || name.find('/') != std::string_view::npos) return false;
  name.remove_suffix(4);
  const std::size_t dash = name.rfind('-');
  return dash != std::string_view::npos && name.size() - dash - 1 >= 6 &&
         name.find_first_not_of("0123456789", dash + 1) == std::string_view::npos;
}

std::vector<std::byte> build_index(const fs::path& root, std::optional<Layout> layout) {
  return Builder(root).build(layout);
}

Index::Index(Bytes bytes, const std::string& root)
    : flat_(bytes, kMagic, kCount, root),
      samples_(flat_.get<IndexSample>(kSamples)),
      files_(flat_.get<IndexFile>(kFiles)),
      text_(flat_.text(kText)),
      fields_(internal::split_items(flat_.text(kFields))) {
  const auto head = flat_.get<IndexHead>(kHead);
  if (head.size() != 1 || head[0].layout > Layout::kFlat) flat_.damaged("an unknown layout");
  layout_ = head[0].layout;
}

std::string_view Index::text(std::uint64_t offset, std::uint64_t length) const {
  if (offset > text_.size() || length > text_.size() - offset) flat_.damaged("a name lies outside");
  return text_.substr(offset, length);
}

std::string_view Index::key(const IndexSample& sample) const {
  return text(sample.key, sample.key_length);
}

std::span<const IndexFile> Index::files(const IndexSample& sample) const {
  if (sample.first_file > files_.size() || sample.files > files_.size() - sample.first_file) {
    flat_.damaged("a sample's files lie outside");
  }
  return files_.subspan(sample.first_file, sample.files);
}

std::string_view Index::path(const IndexFile& file) const {
  return text(file.path, file.path_length);
}

std::string_view Index::field(const IndexFile& file) const {
  if (file.field >= fields_.size()) flat_.damaged("an unknown field");
  return fields_[file.field];
}

std::vector<std::string> Index::classes() const {
  return internal::split_items(flat_.text(kClasses));
}

std::vector<std::string> Index::warnings() const {
  return internal::split_items(flat_.text(kWarnings));
}

}  // namespace shardmill::folder
