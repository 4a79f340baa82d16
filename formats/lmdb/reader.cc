// SPDX-License-Identifier: Apache-2.0
#include "formats/lmdb/reader.h"

#include <shardmill/formats/error.h>

#include "formats/lmdb/internal/record.h"
#include "formats/lmdb/internal/walk.h"

namespace shardmill::lmdb {

namespace {

constexpr std::string_view kPlainField = "bin";

}  // namespace

LmdbReader::LmdbReader(const std::filesystem::path& path, std::span<const std::byte> index,
                       Access access)
    : environment_(data_file_of(path), access), index_(index, environment_) {
  info_.layout = index_.layout() == Layout::kShardmill ? "shardmill" : "plain";
  if (!environment_.mapped()) ahead_.emplace(data_file_of(path), Access::kRead);
}

void LmdbReader::read(std::uint64_t n, SampleView& out) {
  SHARDMILL_CHECK(n < size());
  environment_.release();
  if (environment_.changed()) {
    environment_.damaged("sample " + std::to_string(n),
                         "a writer has changed the environment since it was opened");
  }
  Page page;
  const Node node = locate(environment_, n, page);
  const Bytes value = environment_.value(page, node);
  if (index_.layout() == Layout::kPlain) {
    fields_.assign(1, {kPlainField, value, nullptr});
    out = {node.key, fields_};
    return;
  }
  std::string_view key;
  if (const char* wrong = parse_record(value, key, fields_)) damaged(n, wrong);
  out = {key, fields_};
}

Node LmdbReader::locate(Environment& environment, std::uint64_t n, Page& page) const {
  Position position;
  if (!index_.find(n, position)) damaged(n, "the index contradicts itself");
  page = environment.page(position.page, kLeafPage);
  if (position.node >= page.count) damaged(n, "its page holds fewer entries than the index says");
  const Node node = environment.node(page, position.node);
  if ((node.flags & (kNodeTree | kNodeDuplicates)) != 0) damaged(n, "its entry holds no value");
  if (index_.layout() == Layout::kShardmill && !is_key_of(n, node.key)) {
    damaged(n, "its entry has the key of another");
  }
  return node;
}

void LmdbReader::will_need(std::uint64_t n) noexcept {
  if (n >= size()) return;
  Environment& environment = ahead_ ? *ahead_ : environment_;
  try {
    Page page;
    const Node node = locate(environment, n, page);
    environment.will_need(environment.extent(page, node));
  } catch (const std::exception&) {
    // A damaged entry is reported when it is read.
  }
  if (ahead_) ahead_->release();
}

void LmdbReader::damaged(std::uint64_t n, const char* cause) const {
  environment_.damaged("sample " + std::to_string(n), cause);
}

}  // namespace shardmill::lmdb
