// SPDX-License-Identifier: Apache-2.0
#include "formats/tar/internal/index.h"

#include <shardmill/formats/error.h>
#include <sys/stat.h>

#include <algorithm>
#include <unordered_map>

#include "formats/internal/key_set.h"
#include "formats/internal/member_name.h"
#include "formats/tar/internal/header.h"
#include "formats/tar/internal/other_indices.h"
#include "formats/tar/internal/sample_rules.h"
#include "formats/tar/internal/walk.h"

namespace shardmill::tar {

namespace {

constexpr std::uint64_t kMagic = 0x3130544152415453;  // "STARAT01"
constexpr std::uint64_t kLongestEnd = 1 << 20;        // zeros at the end of an archive

enum Section : std::size_t { kFile, kSamples, kMembers, kKeys, kFields, kWarnings, kSections };

std::int64_t modified_ns(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) throw system_error(errno, path, "cannot stat");
  return static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
}

class Builder {
 public:
  explicit Builder(const std::filesystem::path& path)
      : input_(path), size_(input_.size().value()), walk_(input_), rules_(input_.path()) {}

  // `trust`: an index of DALI beside the archive may stand for the walk.
  std::vector<std::byte> build(bool trust) {
    const std::vector<OtherIndex> others = neighbour_indices(input_.path(), warnings_);
    const bool taken =
        trust && std::any_of(others.begin(), others.end(), [this](const auto& other) {
          if (take(other)) return true;
          reset();
          return false;
        });
    if (!taken) {
      for (Member member; walk_.next(member);) add(member);
    }
    finish_sample();
    samples_.push_back({members_.size(), keys_.size()});
    explain_repeated();
    for (const OtherIndex& other : others) compare_with(other);
    return serialise();
  }

 private:
  void add(const Member& member);
  void add_field(std::string_view key, std::string_view field, IndexMember member);
  void finish_sample();
  void explain_repeated();
  bool take(const OtherIndex& other);
  void reset();
  void compare_with(const OtherIndex& other);
  std::span<const IndexMember> members_of(std::size_t n) const {
    const auto first = samples_[n].first_member;
    return std::span(members_).subspan(first, samples_[n + 1].first_member - first);
  }
  std::uint32_t field_number(std::string_view field);
  std::vector<std::byte> serialise();
  std::string_view current_key() const {
    return std::string_view(keys_).substr(samples_.back().key);
  }

  FileInput input_;
  std::uint64_t size_;
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
  std::vector<std::size_t> repeated_;  // samples whose key was there before
  SampleRules rules_;
  std::vector<std::string> warnings_;
};

void Builder::add(const Member& member) {
  std::string_view key;
  std::string_view field;
  if (!rules_.take(member, key, field)) return;
  add_field(key, field, {member.data_offset, member.size, 0, member.header_hash});
}

void Builder::add_field(std::string_view key, std::string_view field, IndexMember member) {
  if (!open_ || key != current_key()) {
    finish_sample();
    samples_.push_back({members_.size(), keys_.size()});
    keys_ += key;
    open_ = true;
  }
  member.field = field_number(field);
  members_.push_back(member);
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
    throw Error(ErrorCode::kDataLoss, input_.path(), sample_place(current_key(), name(*twice)),
                "duplicate field: two members of this name, at offsets " +
                    std::to_string(twice->data_offset - kBlock) + " and " +
                    std::to_string((twice + 1)->data_offset - kBlock),
                "field names ignore case; rename one of the files and pack again");
  }
  if (!seen_.insert(current_key())) repeated_.push_back(samples_.size() - 1);
}

// Says of keys that come twice whether their fields do, or stand apart by mistake.
void Builder::explain_repeated() {
  std::unordered_map<std::string_view, std::size_t> first;
  const auto key = [this](std::size_t n) {
    return std::string_view(keys_).substr(samples_[n].key, samples_[n + 1].key - samples_[n].key);
  };
  for (const std::size_t n : repeated_) first.emplace(key(n), n);
  for (std::size_t n = repeated_.empty() ? 0 : samples_.size() - 1; n-- > 0;) {
    const auto at = first.find(key(n));
    if (at != first.end()) at->second = n;
  }
  for (const std::size_t n : repeated_) {
    const auto mine = members_of(n);
    const auto others = members_of(first.at(key(n)));
    const bool common = std::any_of(mine.begin(), mine.end(), [&](const IndexMember& member) {
      return std::any_of(others.begin(), others.end(),
                         [&](const IndexMember& other) { return other.field == member.field; });
    });
    rules_.counts().note(common ? kRepeatedKeys : kScatteredKeys, key(n));
  }
}

// Takes samples and members from DALI's index instead of a walk, if that index accounts for every
// byte of the archive. Their headers are then looked at when they are read.
bool Builder::take(const OtherIndex& other) {
  if (other.samples.empty() || !other.has_names) return false;
  std::uint64_t at = 0;
  for (const auto& sample : other.samples) {
    for (const OtherIndex::Member& entry : sample) {
      Member member;
      member.name = entry.name;
      std::string_view key;
      std::string_view field;
      if (entry.data_offset != at + kBlock || entry.size > size_ ||
          !rules_.take(member, key, field)) {
        return false;
      }
      add_field(key, field, {entry.data_offset, entry.size, 0, kUnknownHeader});
      at = entry.data_offset + padded(entry.size);
    }
    if (samples_.empty() || sample.empty()) return false;
  }
  const bool ends = at <= size_ && size_ - at >= 2 * kBlock && size_ - at <= kLongestEnd;
  return ends && samples_.size() == other.samples.size() && is_zero(input_.bytes(at, size_ - at));
}

void Builder::reset() {
  samples_.clear();
  members_.clear();
  keys_.clear();
  open_ = false;
  seen_ = {};
  repeated_.clear();
  rules_ = SampleRules(input_.path());
}

// Warns if an index that another program made is of another archive.
void Builder::compare_with(const OtherIndex& other) {
  const std::uint64_t count = samples_.size() - 1;
  std::string cause;
  if (other.size() != count) {
    cause =
        "has " + std::to_string(other.size()) + " samples, the archive " + std::to_string(count);
  }
  std::uint64_t end = 0;  // of the sample before
  for (std::uint64_t n = 0; n < count && cause.empty(); ++n) {
    std::uint64_t first = size_;
    std::uint64_t last = 0;
    for (const IndexMember& member : members_of(n)) {
      first = std::min(first, member.data_offset);
      last = std::max(last, member.data_offset + padded(member.size));
    }
    bool fits = true;
    if (!other.headers.empty()) {  // extended headers may stand in front of the first one
      fits = other.headers[n] + kBlock <= first && other.headers[n] >= end;
    } else {
      std::uint64_t theirs = size_;
      for (const auto& member : other.samples[n]) theirs = std::min(theirs, member.data_offset);
      fits = theirs == first;
    }
    if (!fits) cause = "has sample " + std::to_string(n) + " in another place";
    end = last;
  }
  if (cause.empty()) return;
  warnings_.push_back("the " + other.kind + " index " + escape(other.file.filename().string()) +
                      " does not fit: it " + cause);
}

std::vector<std::byte> Builder::serialise() {
  const IndexFile file{size_, modified_ns(input_.path())};
  std::string fields;
  for (const std::string& field : fields_) internal::append_item(fields, field);
  std::string warnings;
  for (const std::string& line : rules_.counts().lines()) internal::append_item(warnings, line);
  for (const std::string& line : walk_.warnings()) internal::append_item(warnings, line);
  for (const std::string& line : warnings_) internal::append_item(warnings, line);
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
  // Whoever asks for plain reads (verify) wants the archive's own word.
  return Builder(path).build(access != Access::kRead);
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
