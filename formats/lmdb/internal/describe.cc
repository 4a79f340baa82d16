// SPDX-License-Identifier: Apache-2.0
#include "formats/lmdb/internal/describe.h"

#include <shardmill/formats/digest.h>
#include <shardmill/formats/error.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "formats/lmdb/internal/walk.h"

namespace shardmill::lmdb {

namespace {

using Json = nlohmann::ordered_json;
using NamedTree = std::pair<std::string, Tree>;

class Description {
 public:
  Description(Environment& environment, bool hash) : environment_(environment), hash_(hash) {}

  std::string text() {
    const Meta& meta = environment_.meta();
    json_["format"] = "lmdb";
    json_["page_size"] = meta.page_size;
    json_["map_size"] = meta.map_size;
    json_["transaction"] = meta.transaction;
    json_["databases"] = Json::array();
    if (hash_) json_["records"] = Json::array();
    std::vector<NamedTree> named;
    database("", meta.main, &named);
    for (const auto& [name, tree] : named) database(name, tree, nullptr);
    return json_.dump();
  }

 private:
  // Lists one database; collects the named ones among its entries into `named`.
  void database(const std::string& name, const Tree& tree, std::vector<NamedTree>* named) {
    Json row{{"name", name}, {"entries", tree.entries}};
    const bool duplicates = (tree.flags & kTreeDuplicates) != 0;
    if (duplicates) row["duplicates"] = true;
    json_["databases"].push_back(std::move(row));
    if (duplicates) {
      if (!hash_) return;
      throw Error(ErrorCode::kUnsupported, environment_.path(), "database \"" + name + '"',
                  "a key may have several values here (MDB_DUPSORT): they cannot be hashed",
                  "describe it without hashes");
    }
    walk(environment_, tree, [&](const Page& page, std::uint16_t flags) {
      if (!hash_ && (flags & kNodeTree) == 0) return;
      for (std::uint32_t i = 0; i < page.count; ++i) {
        const Node node = environment_.node(page, i);
        if ((node.flags & kNodeTree) != 0) {
          subdatabase(page, node, named);
        } else if (hash_) {
          record(name, page, node);
        }
      }
    });
  }

  void subdatabase(const Page& page, const Node& node, std::vector<NamedTree>* named) {
    if (named == nullptr || node.size != kTreeBytes || (node.flags & kNodeOverflow) != 0) {
      environment_.damaged("page " + std::to_string(page.number), "damaged sub-database");
    }
    named->emplace_back(escape(node.key), parse_tree(page.bytes.data() + node.offset));
  }

  void record(const std::string& database, const Page& page, const Node& node) {
    Json row;
    if (!database.empty()) row["database"] = database;
    row["key"] = escape(node.key);
    row["bytes"] = node.size;
    row["sha256"] = sha256_hex(environment_.value(page, node));
    json_["records"].push_back(std::move(row));
  }

  Environment& environment_;
  const bool hash_;
  Json json_;
};

}  // namespace

std::string describe_environment(Environment& environment, bool hash) {
  return Description(environment, hash).text();
}

}  // namespace shardmill::lmdb
