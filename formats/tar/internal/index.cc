// SPDX-License-Identifier: Apache-2.0
#include "formats/tar/internal/index.h"

#include <shardmill/formats/error.h>
#include <sys/stat.h>

#include <algorithm>
#include <unordered_map>

#include "formats/internal/key_set.h"
#include "formats/internal/member_name.h"
#include "formats/tar/internal/sample_rules.h"
#include "formats/tar/internal/walk.h"

namespace shardmill::tar {

namespace {

constexpr std::uint64_t kMagic = 0x3130544152415453;  // "STARAT01"

enum Section : std::size_t { kFile, kSamples, kMembers, kKeys, kFields, kWarnings, kSections };

std::int64_t modified_ns(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) throw system_error(errno, path, "cannot stat");
  return static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
}

class Builder {
 public:
  explicit Builder(internal::InputFile& file)
      : file_(file), input_(file), walk_(input_), rules_(file.path()) {}

  std::vector<std::byte> build() {
    for (Member member; walk_.next(member);) add(member);
    finish_sample();
    samples_.push_back({members_.size(), keys_.size()});
    return serialise();
  }

 private:
  void add(const Member& member);
  void finish_sample();
  std::uint32_t field_number(std::string_view field);
  std::vector<std::byte> serialise();
  std::string_view current_key() const {
    return std::string_view(keys_).substr(samples_.back().key);
  }

  internal::InputFile& file_;
  FileInput input_;
  Walk walk_;
  bool open_ = false;  // samples_.back() may get more members
  std::vector<IndexSample> samples_;
  std::vector<IndexMember> members_;
  std::string keys_;
  std::vector<std::string> fields_;
  std::unordered_map<std::string, std::uint32_t> field_numbers_;
  std::uint32_t guess_ = 0;
  std::string scratch_;
  internal::KeySet seen_;
  SampleRules rules_;
};

void Builder::add(const Member& member) {
  std::string_view key;
  std::string_view field;
  if (!rules_.take(member, key, field)) return;
  if (!open_ || key != current_key()) {
    finish_sample();
    samples_.push_back({members_.size(), keys_.size()});
    keys_ += key;
    open_ = true;
  }
  members_.push_back({member.data_offset, member.size, field_number(field), member.header_hash});
}

std::uint32_t Builder::field_number(std::string_view field) {
  // Samples mostly have the same fields in the same order: the successor is a good guess.
  guess_ = guess_ + 1 < fields_.size() ? guess_ + 1 : 0;
  if (guess_ < fields_.size() && fields_[guess_] == field) return guess_;
  scratch_ = field;
  internal::lower_case(scratch_);
  const auto [at, added] =
      field_numbers_.try_emplace(scratch_, static_cast<std::uint32_t>(fields_.size()));
  if (added) fields_.push_back(scratch_);
  return guess_ = at->second;
}

void Builder::finish_sample() {
  if (!open_) return;
  open_ = false;
  const auto first = members_.begin() + static_cast<std::ptrdiff_t>(samples_.back().first_member);
  const auto name = [this](const IndexMember& m) -> const std::string& { return fields_[m.field]; };
  std::sort(first, members_.end(), [&](const IndexMember& a, const IndexMember& b) {
    return a.field != b.field && name(a) < name(b);
  });
  const auto twice = std::adjacent_find(
      first, members_.end(),
      [](const IndexMember& a, const IndexMember& b) { return a.field == b.field; });
  if (twice != members_.end()) {
    throw Error(ErrorCode::kDataLoss, file_.path(), sample_place(current_key(), name(*twice)),
                "duplicate field: two members of this name, at offsets " +
                    std::to_string(twice->data_offset - kBlock) + " and " +
                    std::to_string((twice + 1)->data_offset - kBlock),
                "field names ignore case; rename one of the files and pack again");
  }
  if (!seen_.insert(current_key())) {
    rules_.counts().note("keys occur again in another place and are separate samples",
                         current_key());
  }
}

std::vector<std::byte> Builder::serialise() {
  const IndexFile file{file_.size(), modified_ns(file_.path())};
  std::string fields;
  for (const std::string& field : fields_) internal::append_item(fields, field);
  std::string warnings;
  for (const std::string& line : rules_.counts().lines()) internal::append_item(warnings, line);
  for (const std::string& line : walk_.warnings()) internal::append_item(warnings, line);
  internal::FlatIndexWriter writer(kMagic);
  writer.add(std::span<const IndexFile>(&file, 1));
  writer.add(std::span<const IndexSample>(samples_));
  writer.add(std::span<const IndexMember>(members_));
  writer.add(keys_);
  writer.add(fields);
  writer.add(warnings);
  return writer.finish();
}

}  // namespace

std::vector<std::byte> build_index(const std::filesystem::path& path, Access access) {
  internal::InputFile file(path, access);
  return Builder(file).build();
}

Index::Index(Bytes bytes, const std::string& path)
    : flat_(bytes, kMagic, kSections, path),
      samples_(flat_.get<IndexSample>(kSamples)),
      members_(flat_.get<IndexMember>(kMembers)),
      keys_(flat_.text(kKeys)),
      fields_(internal::split_items(flat_.text(kFields))) {
  const auto file = flat_.get<IndexFile>(kFile);
  if (file.size() != 1 || samples_.empty()) flat_.damaged("a section is empty");
  file_ = file.data();
}

std::span<const IndexMember> Index::members(std::uint64_t n) const {
  const std::uint64_t begin = samples_[n].first_member;
  const std::uint64_t end = samples_[n + 1].first_member;
  if (begin > end || end > members_.size()) flat_.damaged("a sample's members lie outside");
  return members_.subspan(begin, end - begin);
}

std::string_view Index::key(std::uint64_t n) const {
  const std::uint64_t begin = samples_[n].key;
  const std::uint64_t end = samples_[n + 1].key;
  if (begin > end || end > keys_.size()) flat_.damaged("a key lies outside");
  return keys_.substr(begin, end - begin);
}

std::string_view Index::field(const IndexMember& member) const {
  if (member.field >= fields_.size()) flat_.damaged("an unknown field");
  return fields_[member.field];
}

std::vector<std::string> Index::warnings() const {
  return internal::split_items(flat_.text(kWarnings));
}

}  // namespace shardmill::tar
