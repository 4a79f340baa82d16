// SPDX-License-Identifier: Apache-2.0
#include "converters/sources/list_rows.h"

#include <shardmill/formats/error.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

namespace shardmill::internal {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

[[noreturn]] void malformed(const fs::path& path, std::uint64_t line, const std::string& cause) {
  throw Error(ErrorCode::kDataLoss, path.string(), "line " + std::to_string(line), cause,
              "correct this line");
}

std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw system_error(errno, path.string(), "cannot open");
  std::ostringstream all;
  all << in.rdbuf();
  std::string text = all.str();
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  return text;
}

// Cuts delimited text into rows of cells.
class Splitter {
 public:
  Splitter(const fs::path& path, std::string text, char delimiter, bool quotes)
      : path_(path), text_(std::move(text)), delimiter_(delimiter), quotes_(quotes) {}

  bool next(std::vector<std::string>& cells, std::uint64_t& line) {
    while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r')) {  // empty lines
      line_ += text_[at_] == '\n';
      ++at_;
    }
    if (at_ >= text_.size()) return false;
    line = line_;
    cells.clear();
    while (!cell(cells.emplace_back())) {
    }
    return true;
  }

 private:
  // Reads one cell; returns true at the end of the row.
  bool cell(std::string& out) {
    if (quotes_ && at_ < text_.size() && text_[at_] == '"') quoted(out);
    while (at_ < text_.size() && text_[at_] != delimiter_ && text_[at_] != '\n') {
      out += text_[at_++];
    }
    const bool end = at_ >= text_.size() || text_[at_] == '\n';
    if (end && out.ends_with('\r')) out.pop_back();
    if (at_ < text_.size()) line_ += text_[at_++] == '\n';
    return end;
  }
  void quoted(std::string& out) {
    const std::uint64_t begin = line_;
    for (++at_;; ++at_) {
      if (at_ >= text_.size()) malformed(path_, begin, "a quote is not closed");
      if (text_[at_] == '"') {
        if (at_ + 1 >= text_.size() || text_[at_ + 1] != '"') break;
        ++at_;
      }
      line_ += text_[at_] == '\n';
      out += text_[at_];
    }
    ++at_;
  }

  const fs::path& path_;
  std::string text_;
  char delimiter_;
  bool quotes_;
  std::size_t at_ = 0;
  std::uint64_t line_ = 1;
};

bool is_header(const std::vector<std::string>& cells, const std::vector<std::string>& known,
               const fs::path& root) {
  std::error_code error;
  for (const std::string& name : known) {  // columns named by their places
    if (name.find_first_not_of("0123456789") == std::string::npos) return false;
  }
  for (const std::string& cell : cells) {
    if (std::find(known.begin(), known.end(), cell) != known.end()) return true;
  }
  return std::none_of(cells.begin(), cells.end(), [&](const std::string& cell) {
    return !cell.empty() && fs::is_regular_file(root / cell, error);
  });
}

ListRows read_delimited(const fs::path& path, const std::vector<std::string>& known,
                        const fs::path& root, bool tabs) {
  Splitter splitter(path, read_all(path), tabs ? '\t' : ',', !tabs);
  ListRows list;
  std::vector<std::string> cells;
  std::uint64_t line = 0;
  while (splitter.next(cells, line)) {
    if (list.columns.empty()) {
      if (is_header(cells, known, root)) {
        list.columns = cells;
        continue;
      }
      for (std::size_t c = 0; c < cells.size(); ++c) list.columns.push_back(std::to_string(c));
    }
    if (cells.size() != list.columns.size()) {
      malformed(path, line,
                "has " + std::to_string(cells.size()) + " columns, the first line " +
                    std::to_string(list.columns.size()));
    }
    auto& row = list.rows.emplace_back();
    for (std::string& cell : cells) row.push_back({std::move(cell), false, false});
    list.lines.push_back(line);
  }
  return list;
}

ListRows::Cell cell_of(const Json& value) {
  if (value.is_null()) return {{}, true, false};
  if (value.is_string()) return {value.get<std::string>(), false, false};
  return {value.dump(-1, ' ', false, Json::error_handler_t::replace), false, value.is_structured()};
}

ListRows read_jsonl(const fs::path& path) {
  ListRows list;
  std::map<std::string, std::size_t, std::less<>> numbers;
  std::istringstream in(read_all(path));
  std::uint64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) malformed(path, number, "is not a JSON object");
    auto& row = list.rows.emplace_back(list.columns.size(), ListRows::Cell{{}, true, false});
    for (const auto& [name, value] : json.items()) {
      const auto [at, added] = numbers.emplace(name, list.columns.size());
      if (added) {
        list.columns.push_back(name);
        row.push_back({{}, true, false});
      }
      row[at->second] = cell_of(value);
    }
    list.lines.push_back(number);
  }
  for (auto& row : list.rows) row.resize(list.columns.size(), ListRows::Cell{{}, true, false});
  return list;
}

}  // namespace

ListRows read_list(const fs::path& path, const std::vector<std::string>& known,
                   const fs::path& root) {
  const fs::path extension = path.extension();
  if (extension == ".jsonl" || extension == ".ndjson") return read_jsonl(path);
  return read_delimited(path, known, root, extension == ".tsv");
}

}  // namespace shardmill::internal
