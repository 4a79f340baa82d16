// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>

#include <algorithm>
#include <map>
#include <set>

#include "converters/internal/adoption.h"
#include "converters/sources/list_rows.h"
#include "converters/sources/source_options.h"
#include "converters/sources/table_source.h"

namespace shardmill::internal {

namespace fs = std::filesystem;

namespace {

bool is_decimal(std::string_view text) {
  return !text.empty() && text.size() < 19 &&
         text.find_first_not_of("0123456789") == std::string_view::npos &&
         (text.size() == 1 || text.front() != '0');
}

// Makes a table of a list's rows.
class ListBuilder {
 public:
  ListBuilder(const fs::path& path, const ConvertOptions& options)
      : path_(fs::absolute(path).lexically_normal()), options_(options) {
    root_ = options.list_root.empty() ? path_.parent_path()
                                      : fs::absolute(options.list_root).lexically_normal();
  }

  SourcePtr build() {
    std::vector<std::string> known;
    for (const auto& [field, column] : options_.list_files) known.push_back(column);
    if (!options_.list_class.empty()) known.push_back(options_.list_class);
    list_ = read_list(path_, known, root_);
    if (list_.rows.empty()) {
      throw Error(ErrorCode::kNotFound, path_.string(), {}, "the list has no rows");
    }
    table_.name = path_.string();
    table_.size = list_.rows.size();
    table_.paths = {path_};
    add_files();
    if (!options_.list_class.empty()) add_class();
    for (std::size_t c = 0; c < list_.columns.size(); ++c) {
      if (!used_.contains(c)) add_text(c);
    }
    add_keys();
    return table_source(table_);
  }

 private:
  std::size_t column(const std::string& name, const char* option) const {
    const auto at = std::find(list_.columns.begin(), list_.columns.end(), name);
    if (at != list_.columns.end()) return static_cast<std::size_t>(at - list_.columns.begin());
    std::string all;
    for (const std::string& known : list_.columns) all += (all.empty() ? "" : ", ") + known;
    throw Error(ErrorCode::kInvalidArgument, option, {},
                path_.string() + " has no column \"" + escape(name) + "\"",
                "it has " + escape(all));
  }

  std::string file_of(const std::string& cell) const {
    return (root_ / cell).lexically_normal().string();
  }

  void add_files() {
    if (options_.list_files.empty()) {
      if (const auto c = path_column()) add_file({}, *c);
      return;
    }
    for (const auto& [field, name] : options_.list_files) {
      add_file(field, column(name, "--files"));
    }
  }

  // The first column whose first value is a file.
  std::optional<std::size_t> path_column() const {
    std::error_code error;
    for (std::size_t c = 0; c < list_.columns.size(); ++c) {
      const auto& cell = list_.rows.front()[c];
      if (!cell.absent && !cell.nested && !cell.text.empty() &&
          fs::is_regular_file(root_ / cell.text, error)) {
        return c;
      }
    }
    // Something that is meant to be one is an error rather than a text.
    for (const char* name : {"path", "file", "filename", "file_name", "image"}) {
      const auto at = std::find(list_.columns.begin(), list_.columns.end(), name);
      if (at == list_.columns.end()) continue;
      const auto c = static_cast<std::size_t>(at - list_.columns.begin());
      if (list_.rows.front()[c].text.find('.') != std::string::npos) return c;
    }
    return std::nullopt;
  }

  void add_file(const std::string& field, std::size_t c) {
    TableColumn column;
    column.field = field;
    column.kind = TableColumn::Kind::kFile;
    for (const auto& row : list_.rows) {
      row[c].absent || row[c].text.empty() ? column.add_absent() : column.add(file_of(row[c].text));
    }
    used_.insert(c);
    if (field.empty()) report_extensions(c);
    if (!key_column_) key_column_ = c;
    table_.columns.push_back(std::move(column));
  }

  // Says what becomes of extensions that are written in several ways.
  void report_extensions(std::size_t c) {
    std::uint64_t changed = 0;
    std::string first;
    for (const auto& row : list_.rows) {
      const std::string extension = fs::path(row[c].text).extension().string();
      const bool capital = std::any_of(extension.begin(), extension.end(),
                                       [](char letter) { return letter >= 'A' && letter <= 'Z'; });
      if (!capital && extension != ".jpeg") continue;
      if (changed++ == 0) first = row[c].text;
    }
    if (changed == 0) return;
    table_.warnings.push_back(path_.filename().string() + ": " + std::to_string(changed) +
                              " extensions taken in lower case, jpeg as jpg (first: \"" +
                              escape(first) + "\")");
  }

  void add_class() {
    const std::size_t c = column(options_.list_class, "--class");
    used_.insert(c);
    bool numbers = true;
    std::set<std::string> names;
    for (const auto& row : list_.rows) {
      if (row[c].absent) continue;
      numbers = numbers && is_decimal(row[c].text);
      names.insert(row[c].text);
    }
    std::map<std::string, std::size_t> number_of;
    if (!numbers) {
      table_.classes.assign(names.begin(), names.end());
      if (!options_.classes.empty()) table_.classes = load_classes(options_.classes);
      for (const std::string& name : table_.classes) number_of.emplace(name, number_of.size());
    }
    TableColumn column;
    column.field = "cls";
    for (std::size_t r = 0; r < list_.rows.size(); ++r) {
      const auto& cell = list_.rows[r][c];
      if (cell.absent) {
        column.add_absent();
      } else if (numbers) {
        column.add(cell.text);
      } else {
        const auto at = number_of.find(cell.text);
        if (at == number_of.end()) {
          throw Error(ErrorCode::kInvalidArgument, path_.string(),
                      "line " + std::to_string(list_.lines[r]),
                      "the class \"" + escape(cell.text) + "\" is not among those of --classes",
                      "add it there, or leave the sample out");
        }
        column.add(std::to_string(at->second));
      }
    }
    table_.columns.push_back(std::move(column));
  }

  void add_text(std::size_t c) {
    if (list_.columns[c] == "__key__") return;
    TableColumn column;
    TableColumn nested;
    column.field = field_name(list_.columns[c]);
    nested.field = column.field + ".json";
    bool any = false;
    bool any_nested = false;
    for (const auto& row : list_.rows) {
      const auto& cell = row[c];
      any = any || (!cell.absent && !cell.nested);
      any_nested = any_nested || (!cell.absent && cell.nested);
      cell.absent || cell.nested ? column.add_absent() : column.add(cell.text);
      cell.absent || !cell.nested ? nested.add_absent() : nested.add(cell.text);
    }
    if (any) table_.columns.push_back(std::move(column));
    if (any_nested) table_.columns.push_back(std::move(nested));
  }

  // Field names are parts of file names in some formats.
  static std::string field_name(const std::string& column) {
    std::string name = column;
    for (char& c : name) {
      if (c == '/' || c == '\0' || c == '\n') c = '_';
    }
    return name.empty() ? "column" : name;
  }

  // The path below the root, up to the first dot of the file's name; or the column "__key__"; or
  // the row's number.
  void add_keys() {
    const auto own = std::find(list_.columns.begin(), list_.columns.end(), "__key__");
    if (own != list_.columns.end()) {
      const auto c = static_cast<std::size_t>(own - list_.columns.begin());
      for (const auto& row : list_.rows) table_.keys.push_back(row[c].text);
      return;
    }
    if (!key_column_) return;
    for (std::size_t r = 0; r < list_.rows.size(); ++r) {
      const std::string& cell = list_.rows[r][*key_column_].text;
      fs::path path = fs::path(file_of(cell)).lexically_relative(root_);
      std::string key = path.string();
      while (key.starts_with("../")) key.erase(0, 3);
      const std::size_t slash = key.rfind('/');
      const std::size_t dot = key.find('.', slash == std::string::npos ? 1 : slash + 2);
      table_.keys.push_back(key.substr(0, dot));
    }
  }

  fs::path path_;
  const ConvertOptions& options_;
  fs::path root_;
  ListRows list_;
  Table table_;
  std::set<std::size_t> used_;
  std::optional<std::size_t> key_column_;
};

}  // namespace

bool is_list(const fs::path& path) {
  std::error_code error;
  const fs::path extension = path.extension();
  return (extension == ".csv" || extension == ".tsv" || extension == ".jsonl" ||
          extension == ".ndjson") &&
         !fs::is_directory(path, error);
}

SourcePtr list_source(const fs::path& path, const ConvertOptions& options) {
  return ListBuilder(path, options).build();
}

}  // namespace shardmill::internal
