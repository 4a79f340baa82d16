// SPDX-License-Identifier: Apache-2.0
#include "converters/sources/table_source.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "formats/internal/flat_index.h"
#include "formats/internal/input_file.h"
#include "formats/internal/member_name.h"

namespace shardmill::internal {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

constexpr std::uint64_t kMagic = 0x31424154534D4853;  // "SHMSTAB1"
constexpr std::size_t kFixed = 4;                     // sections in front of the columns
constexpr std::size_t kPerColumn = 4;

// A column as it lies in flat bytes.
struct ColumnView {
  std::string field;
  TableColumn::Kind kind = TableColumn::Kind::kText;
  std::span<const std::uint64_t> ends;
  std::string_view text;
  std::span<const std::uint8_t> present;
  std::string file;
  std::uint64_t offset = 0;
  ArrayType row;
  bool big_endian = false;
  bool label = false;

  bool has(std::uint64_t n) const { return present.empty() || present[n] != 0; }
  std::string_view value(std::uint64_t n) const {
    const std::uint64_t begin = n == 0 ? 0 : ends[n - 1];
    return text.substr(begin, ends[n] - begin);
  }
};

struct TableView {
  std::string name;
  std::uint64_t size = 0;
  std::span<const std::uint64_t> key_ends;
  std::string_view keys;
  std::vector<ColumnView> columns;
  std::vector<std::string> classes;
  std::vector<std::string> warnings;
  std::vector<std::string> paths;

  std::string key(std::uint64_t n) const {
    if (!key_ends.empty()) {
      const std::uint64_t begin = n == 0 ? 0 : key_ends[n - 1];
      return std::string(keys.substr(begin, key_ends[n] - begin));
    }
    char digits[24];
    std::snprintf(digits, sizeof digits, "%09llu", static_cast<unsigned long long>(n));
    return digits;
  }
};

std::string extension_of(std::string_view path) {
  const std::string_view base = base_name(path);
  const std::size_t dot = base.rfind('.');
  std::string field(dot == std::string_view::npos || dot == 0 ? "bin" : base.substr(dot + 1));
  lower_case(field);
  return field == "jpeg" ? "jpg" : field;
}

class TableReader : public SampleReader {
 public:
  explicit TableReader(const TableView& table) : table_(table), states_(table.columns.size()) {}

  void read(std::uint64_t n, SampleView& out) override { fill(n, Access::kRead, out); }
  void peek(std::uint64_t n, SampleView& out) override { fill(n, Access::kMap, out); }
  fs::path file_of(std::uint64_t n) override {
    for (const ColumnView& column : table_.columns) {
      if (column.kind == TableColumn::Kind::kFile && column.has(n)) return column.value(n);
    }
    return {};
  }

 private:
  struct State {
    std::unique_ptr<InputFile> file;
    std::vector<std::byte> row;
    std::string name;
    std::string text;
  };

  void fill(std::uint64_t n, Access access, SampleView& out) {
    key_ = table_.key(n);
    fields_.clear();
    for (std::size_t c = 0; c < table_.columns.size(); ++c) {
      const ColumnView& column = table_.columns[c];
      if (!column.has(n)) continue;
      State& state = states_[c];
      state.name = column.field;
      if (column.kind == TableColumn::Kind::kText) {
        fields_.push_back({state.name, as_bytes(column.value(n)), nullptr});
      } else if (column.kind == TableColumn::Kind::kFile) {
        const std::string_view path = column.value(n);
        if (state.name.empty()) state.name = extension_of(path);
        fields_.push_back({state.name, file_bytes(path, access, state), nullptr});
      } else {
        add_row(n, column, state);
      }
    }
    std::sort(fields_.begin(), fields_.end(),
              [](const FieldView& a, const FieldView& b) { return a.name < b.name; });
    for (std::size_t i = 1; i < fields_.size(); ++i) {
      if (fields_[i].name != fields_[i - 1].name) continue;
      throw Error(ErrorCode::kDataLoss, table_.name, sample_place(key_, fields_[i].name),
                  "two columns become this field", "name them with --files FIELD=COLUMN");
    }
    out = {key_, fields_};
  }

  Bytes file_bytes(std::string_view path, Access access, State& state) {
    try {
      state.file = std::make_unique<InputFile>(fs::path(path), access);
      return state.file->bytes(0, state.file->size());
    } catch (const Error& error) {
      ErrorInfo info = error.info();
      info.path = std::string(path);
      info.place = sample_place(key_, state.name);
      throw Error(std::move(info));
    }
  }

  void add_row(std::uint64_t n, const ColumnView& column, State& state) {
    if (!state.file) state.file = std::make_unique<InputFile>(column.file, Access::kAuto);
    state.file->release();
    const std::uint64_t bytes = column.row.bytes();
    Bytes row = state.file->bytes(column.offset + n * bytes, bytes);
    if (column.big_endian) {
      state.row.resize(bytes);
      NpyView view{column.row, false, true, row};
      if (bytes > 0) canonical_elements(view, state.row.data());
      row = state.row;
    }
    if (!column.label) {
      fields_.push_back({state.name, row, &column.row});
      return;
    }
    state.text = std::to_string(integer(row, column.row.dtype));
    fields_.push_back({state.name, as_bytes(state.text), nullptr});
  }

  template <class T>
  static long long load(Bytes bytes) {
    T value{};
    std::memcpy(&value, bytes.data(), sizeof value);
    return static_cast<long long>(value);
  }
  static long long integer(Bytes bytes, DType dtype) {
    switch (dtype) {
      case DType::kInt8:
        return load<std::int8_t>(bytes);
      case DType::kUInt16:
        return load<std::uint16_t>(bytes);
      case DType::kInt16:
        return load<std::int16_t>(bytes);
      case DType::kUInt32:
        return load<std::uint32_t>(bytes);
      case DType::kInt32:
        return load<std::int32_t>(bytes);
      case DType::kUInt64:
      case DType::kInt64:
        return load<std::int64_t>(bytes);
      default:
        return load<std::uint8_t>(bytes);
    }
  }

  const TableView& table_;
  std::vector<State> states_;
  std::string key_;
  std::vector<FieldView> fields_;
};

class TableSource : public SampleSource {
 public:
  explicit TableSource(std::vector<std::byte> owned) : words_((owned.size() + 7) / 8) {
    std::memcpy(words_.data(), owned.data(), owned.size());
    parse(std::as_bytes(std::span(words_)));
  }
  explicit TableSource(Bytes flat) { parse(flat); }

  std::uint64_t size() const override { return view_.size; }
  std::string name() const override { return view_.name; }
  std::vector<std::string> classes() const override { return view_.classes; }
  std::vector<std::string> warnings() const override { return view_.warnings; }
  std::string path_of(std::uint64_t) const override { return view_.name; }
  std::vector<fs::path> paths() const override { return {view_.paths.begin(), view_.paths.end()}; }
  std::unique_ptr<SampleReader> open() const override {
    return std::make_unique<TableReader>(view_);
  }
  std::string_view kind() const override { return "table"; }
  std::vector<std::byte> flat() const override { return {flat_.begin(), flat_.end()}; }

 private:
  void parse(Bytes flat);

  std::vector<std::uint64_t> words_;
  Bytes flat_;
  TableView view_;
};

void TableSource::parse(Bytes flat) {
  flat_ = flat;
  FlatIndexReader reader(flat, kMagic, kFixed, "the plan");
  const Json head = Json::parse(reader.text(0));
  const std::vector<std::string> texts = split_items(reader.text(1));
  auto text = texts.begin();
  const auto take = [&](std::size_t count) {
    std::vector<std::string> taken(text, text + static_cast<std::ptrdiff_t>(count));
    text += static_cast<std::ptrdiff_t>(count);
    return taken;
  };
  view_.name = take(1)[0];
  view_.classes = take(head.at("classes").get<std::size_t>());
  view_.warnings = take(head.at("warnings").get<std::size_t>());
  view_.paths = take(head.at("paths").get<std::size_t>());
  view_.size = head.at("size").get<std::uint64_t>();
  view_.key_ends = reader.get<std::uint64_t>(2);
  view_.keys = reader.text(3);
  std::size_t section = kFixed;
  for (const Json& json : head.at("columns")) {
    ColumnView column;
    column.field = take(1)[0];
    column.file = take(1)[0];
    column.kind = static_cast<TableColumn::Kind>(json.at("kind").get<int>());
    column.offset = json.at("offset").get<std::uint64_t>();
    column.row = {static_cast<DType>(json.at("dtype").get<int>()),
                  json.at("shape").get<std::vector<std::uint64_t>>()};
    column.big_endian = json.at("big_endian").get<bool>();
    column.label = json.at("label").get<bool>();
    column.ends = reader.get<std::uint64_t>(section);
    column.text = reader.text(section + 1);
    column.present = reader.get<std::uint8_t>(section + 2);
    section += kPerColumn;
    view_.columns.push_back(std::move(column));
  }
}

}  // namespace

SourcePtr table_source(const Table& table) {
  FlatIndexWriter writer(kMagic);
  Json head = {{"size", table.size},
               {"classes", table.classes.size()},
               {"warnings", table.warnings.size()},
               {"paths", table.paths.size()},
               {"columns", Json::array()}};
  std::string texts;
  append_item(texts, table.name);
  for (const std::string& name : table.classes) append_item(texts, name);
  for (const std::string& warning : table.warnings) append_item(texts, warning);
  for (const fs::path& path : table.paths) append_item(texts, path.string());
  for (const TableColumn& column : table.columns) {
    head["columns"].push_back({{"kind", static_cast<int>(column.kind)},
                               {"offset", column.offset},
                               {"dtype", static_cast<int>(column.row.dtype)},
                               {"shape", column.row.shape},
                               {"big_endian", column.big_endian},
                               {"label", column.label}});
    append_item(texts, column.field);
    append_item(texts, column.file.string());
  }
  std::vector<std::uint64_t> key_ends;
  std::string keys;
  for (const std::string& key : table.keys) {
    keys += key;
    key_ends.push_back(keys.size());
  }
  const std::string head_text = head.dump();
  writer.add(head_text);
  writer.add(texts);
  writer.add(std::span<const std::uint64_t>(key_ends));
  writer.add(keys);
  for (const TableColumn& column : table.columns) {
    writer.add(std::span<const std::uint64_t>(column.ends));
    writer.add(column.text);
    writer.add(std::span<const std::uint8_t>(column.present));
    writer.add(std::string_view());
  }
  return std::make_shared<TableSource>(writer.finish());
}

SourcePtr attach_table_source(Bytes flat) { return std::make_shared<TableSource>(flat); }

}  // namespace shardmill::internal
