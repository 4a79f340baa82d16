// SPDX-License-Identifier: Apache-2.0
#include "formats/lmdb/reader.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "formats/lmdb/internal/foreign.h"
#include "formats/lmdb/internal/record.h"
#include "formats/lmdb/internal/walk.h"

namespace shardmill::lmdb {

namespace {

// Of arrays, as everywhere.
constexpr std::string_view kArrayField = "npy";
constexpr std::string_view kClassField = "cls";
constexpr std::string_view kTextField = "txt";

}  // namespace

LmdbReader::LmdbReader(const std::filesystem::path& path, std::span<const std::byte> index,
                       Access access)
    : environment_(data_file_of(path), access), index_(index, environment_) {
  info_.layout = layout_name(index_.layout());
  info_.warnings = index_.warnings();
  if (!environment_.mapped()) ahead_.emplace(data_file_of(path), Access::kRead);
}

void LmdbReader::read(std::uint64_t n, SampleView& out) {
  SHARDMILL_CHECK(n < size());
  environment_.release();
  if (environment_.changed()) {
    environment_.damaged("sample " + std::to_string(n),
                         "a writer has changed the environment since it was opened");
  }
  if (index_.layout() == Layout::kText) return read_text(n, out);
  Page page;
  const Node node = locate_sample(environment_, n, page);
  const Bytes value = environment_.value(page, node);
  std::string_view key = node.key;
  if (index_.layout() == Layout::kShardmill) {
    if (const char* wrong = parse_record(value, key, fields_)) damaged(n, wrong);
  } else if (index_.layout() == Layout::kCaffe) {
    key = caffe_key(node.key);
    read_datum(n, value);
  } else {
    const std::string_view field = payload_field(value);
    fields_.assign(1, {field == "bin" ? index_.field() : field, value, nullptr});
  }
  out = {key, fields_};
}

// Fields come in the order of their names: cls, then jpg, npy, png or webp (bin before cls).
void LmdbReader::read_datum(std::uint64_t n, Bytes value) {
  if (const char* wrong = parse_datum(value, datum_)) {
    Page page;
    const Node node = locate_sample(environment_, n, page);
    environment_.damaged("sample " + std::to_string(n) + " key \"" + escape(node.key) + '"', wrong);
  }
  fields_.clear();
  if (datum_.has_label) {
    const auto end = std::to_chars(label_.begin(), label_.end(), datum_.label).ptr;
    const auto size = static_cast<std::size_t>(end - label_.begin());
    fields_.push_back({kClassField, as_bytes(std::string_view(label_.data(), size)), nullptr});
  }
  const std::uint64_t c = datum_.channels;
  const std::uint64_t h = datum_.height;
  const std::uint64_t w = datum_.width;
  if (datum_.encoded) {
    fields_.push_back({payload_field(datum_.data), datum_.data, nullptr});
  } else if (datum_.data.empty()) {
    fields_.push_back({kArrayField, std::as_bytes(std::span<const float>(datum_.floats)),
                       array_type(DType::kFloat32, {c, h, w})});
  } else if (c == 1 || c == 3 || c == 4) {
    pixels_.resize(datum_.data.size());
    interleave(datum_, pixels_.data());
    fields_.push_back({kArrayField, pixels_, array_type(DType::kUInt8, {h, w, c})});
  } else {
    fields_.push_back({kArrayField, datum_.data, array_type(DType::kUInt8, {c, h, w})});
  }
  std::sort(fields_.begin(), fields_.end(),
            [](const FieldView& a, const FieldView& b) { return a.name < b.name; });
}

void LmdbReader::read_text(std::uint64_t n, SampleView& out) {
  fields_.clear();
  out.key = {};
  Page page;
  Node node;
  if (index_.first_image() < index_.entries()) {
    if (!locate_text(environment_, "image", n, index_.first_image() + n, page, node)) {
      damaged(n, "its image is missing");
    }
    const Bytes value = environment_.value(page, node);
    const std::string_view field = payload_field(value);
    fields_.push_back({field == "bin" ? index_.field() : field, value, nullptr});
    out.key = node.key;
  }
  if (locate_text(environment_, "label", n, index_.first_label() + n, page, node)) {
    fields_.push_back({kTextField, environment_.value(page, node), nullptr});
    if (out.key.empty()) out.key = node.key;
  } else if (out.key.empty()) {
    damaged(n, "its label is missing");
  }
  if (fields_.size() == 2 && fields_[1].name < fields_[0].name) std::swap(fields_[0], fields_[1]);
  out.fields = fields_;
}

const ArrayType* LmdbReader::array_type(DType dtype, std::vector<std::uint64_t> shape) {
  std::vector<std::uint64_t> name = shape;
  name.push_back(static_cast<std::uint64_t>(dtype));
  auto& type = types_[std::move(name)];
  if (type == nullptr) type = std::make_unique<ArrayType>(ArrayType{dtype, std::move(shape)});
  return type.get();
}

Node LmdbReader::locate(Environment& environment, std::uint64_t n, std::uint64_t entry,
                        Page& page) const {
  Position position;
  if (!index_.find(entry, position)) damaged(n, "the index contradicts itself");
  page = environment.page(position.page, kLeafPage);
  if (position.node >= page.count) damaged(n, "its page holds fewer entries than the index says");
  const Node node = environment.node(page, position.node);
  if ((node.flags & (kNodeTree | kNodeDuplicates)) != 0) damaged(n, "its entry holds no value");
  return node;
}

Node LmdbReader::locate_sample(Environment& environment, std::uint64_t n, Page& page) const {
  const Node node = locate(environment, n, n, page);
  if (index_.layout() == Layout::kShardmill && !is_key_of(n, node.key)) {
    damaged(n, "its entry has the key of another");
  }
  return node;
}

bool LmdbReader::locate_text(Environment& environment, std::string_view word, std::uint64_t n,
                             std::uint64_t guess, Page& page, Node& node) const {
  if (guess < index_.entries()) {
    node = locate(environment, n, guess, page);
    if (text_number(word, node.key) == n + 1) return true;
  }
  // Some numbers are missing, or other entries lie between: halves.
  const std::string key = text_key(word, n + 1);
  std::uint64_t low = 0;
  std::uint64_t high = index_.entries();
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    node = locate(environment, n, middle, page);
    if (node.key == key) return true;
    if (node.key < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return false;
}

void LmdbReader::will_need(std::uint64_t n) noexcept {
  if (n >= size()) return;
  Environment& environment = ahead_ ? *ahead_ : environment_;
  const bool text = index_.layout() == Layout::kText;
  const bool image = text && index_.first_image() < index_.entries();
  try {
    Page page;
    const std::uint64_t entry = image  ? index_.first_image() + n
                                : text ? index_.first_label() + n
                                       : n;
    if (entry < index_.entries()) {
      const Node node = locate(environment, n, entry, page);
      environment.will_need(environment.extent(page, node));
    }
  } catch (const std::exception&) {
    // A damaged entry is reported when it is read.
  }
  if (ahead_) ahead_->release();
}

void LmdbReader::damaged(std::uint64_t n, const char* cause) const {
  environment_.damaged("sample " + std::to_string(n), cause);
}

}  // namespace shardmill::lmdb
