// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/digest.h>
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "formats/internal/input_file.h"
#include "formats/tar/internal/header.h"
#include "formats/tar/internal/index.h"
#include "formats/tar/internal/tar_input.h"
#include "formats/tar/internal/walk.h"
#include "formats/tar/reader.h"
#include "formats/tar/stream.h"
#include "formats/tar/writer.h"

namespace shardmill {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kRecord = 20 * tar::kBlock;
constexpr std::uint64_t kLongestEmpty = 1 << 20;
constexpr std::uint64_t kPiece = 1 << 20;

// An archive without members is nothing but zeros, of a length that tar programs write.
bool is_empty_archive(internal::InputFile& file) {
  const std::uint64_t size = file.size();
  if (size != 2 * tar::kBlock && (size % kRecord != 0 || size > kLongestEmpty)) return false;
  return tar::is_zero(file.bytes(0, size));
}

std::string member_sha256(tar::TarInput& input, const tar::Member& member) {
  Sha256 sum;
  for (std::uint64_t done = 0; done < member.size;) {
    const std::uint64_t length = std::min(kPiece, member.size - done);
    const Bytes piece = input.bytes(member.data_offset + done, length);
    if (piece.size() < length) {
      throw Error(ErrorCode::kDataLoss, input.path(),
                  "offset " + std::to_string(member.data_offset - tar::kBlock),
                  "the archive is truncated inside a member", "copy or convert the file again");
    }
    sum.update(piece);
    done += length;
  }
  return sum.hex();
}

Json describe_member(const tar::Member& member) {
  std::string_view name = member.name;
  while (member.type == '5' && name.ends_with('/')) name.remove_suffix(1);
  std::string type(1, member.type);
  if (static_cast<unsigned char>(member.type) >= 0x80) type = escape(type);  // JSON is UTF-8
  Json json = {{"name", escape(name)},
               {"type", type},
               {"bytes", member.real_size},
               {"offset", member.data_offset}};
  if (member.sparse) json["sparse"] = true;
  return json;
}

Json describe_input(tar::TarInput& input, bool hash) {
  tar::Walk walk(input);
  Json json = {{"format", "tar"}, {"members", Json::array()}, {"warnings", Json::array()}};
  for (tar::Member member; walk.next(member);) {
    Json entry = describe_member(member);
    if (hash && member.regular() && !member.sparse) {
      entry["sha256"] = member_sha256(input, member);
    }
    json["members"].push_back(std::move(entry));
  }
  for (const std::string& line : walk.warnings()) json["warnings"].push_back(line);
  return json;
}

class TarFormat final : public Format {
 public:
  std::string_view name() const noexcept override { return "tar"; }
  std::string_view suffix() const noexcept override { return ".tar"; }
  FormatTraits traits() const noexcept override { return {}; }

  bool recognises(const fs::path& path) const override {
    try {
      std::error_code ignored;
      if (!fs::is_regular_file(path, ignored)) return false;
      internal::InputFile file(path, Access::kRead);
      if (file.size() < tar::kBlock) return false;
      const Bytes first = file.bytes(0, tar::kBlock);
      return tar::is_zero(first) ? is_empty_archive(file) : tar::checksum_fits(first);
    } catch (const Error&) {
      return false;  // unreadable: opening it says why
    }
  }

  std::vector<std::byte> build_index(const fs::path& path, Access access) const override {
    return tar::build_index(path, access);
  }

  std::unique_ptr<Reader> open(const fs::path& path, std::span<const std::byte> index,
                               Access access) const override {
    return std::make_unique<tar::TarReader>(path, index, access);
  }

  std::unique_ptr<Writer> create(const fs::path& path, const WriteOptions&) const override {
    return std::make_unique<tar::TarWriter>(path);
  }

  std::string describe(const fs::path& path, bool hash) const override {
    tar::FileInput input(path);
    return describe_input(input, hash).dump();
  }

  std::unique_ptr<Stream> stream(Source& source) const override {
    return std::make_unique<tar::TarStream>(source);
  }

  std::string describe_stream(Source& source, bool hash) const override {
    tar::StreamInput input(source);
    return describe_input(input, hash).dump();
  }
};

}  // namespace

const Format& tar_format() {
  static const TarFormat format;
  return format;
}

}  // namespace shardmill
