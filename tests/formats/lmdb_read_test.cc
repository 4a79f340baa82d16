// SPDX-License-Identifier: Apache-2.0
// Environments that others wrote: plain ones, refused ones, older snapshots, the zoo.
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tests/formats/lmdb_support.h"

using namespace shardmill;
using namespace shardmill::test;
using nlohmann::json;

namespace {

const Format& format() { return find_format("lmdb"); }

ErrorInfo error_of_reading(const fs::path& path, Access access = Access::kMap) {
  return error_of([&] { dump_all(format(), path, access); });
}

const std::string kDescription = R"({"version":1,"count":2,"fields":["a"]})";
const std::string kRecord =
    "\x82\xa7__key__\xa1k\xa1"
    "a\xc4\x01x";

Entries shard_of(std::string_view second, std::string_view description = kDescription) {
  return {{"000000000000", kRecord},
          {"000000000001", std::string(second)},
          {"__shardmill__", std::string(description)}};
}

// The key of a row of the zoo's table as descriptions print it.
std::string expected_key(const json& row) {
  if (row.contains("key")) return escape(row["key"].get<std::string>());
  const std::string hex = row["key_hex"];
  std::string key;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    key += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return escape(key);
}

void patch(const fs::path& file, std::size_t offset, std::string_view bytes) {
  std::string data = read_text(file);
  data.replace(offset, bytes.size(), bytes);
  write_text(file, data);
}

}  // namespace

TEST_CASE("lmdb reader takes plain environments as name and bytes", "[formats][lmdb]") {
  TemporaryFolder folder;
  Entries entries;
  std::vector<std::string> expected;
  for (std::uint32_t i = 0; i < 3000; ++i) {
    const std::string name = "img" + std::to_string(100000 + i * 7);
    entries.emplace_back(name, random_bytes(i % 50 == 0 ? 10'000 : i % 300, i));
    expected.push_back(name + "|bin=" + std::to_string(entries.back().second.size()) + ':' +
                       entries.back().second);
  }
  write_with_liblmdb(folder / "d", entries);
  write_with_liblmdb(folder / "single.lmdb", entries, MDB_NOSUBDIR, 0, nullptr, 100);
  for (const fs::path& path : {folder / "d", folder / "d/data.mdb", folder / "single.lmdb"}) {
    CHECK(format().recognises(path));
    CHECK((dump_all(format(), path, Access::kMap) == expected));
    CHECK((dump_all(format(), path, Access::kRead) == expected));
    OpenShard shard(format(), path);
    CHECK(shard.reader().info().layout == "plain");
  }
}

TEST_CASE("lmdb reader refuses what holds no samples in a row", "[formats][lmdb]") {
  TemporaryFolder folder;
  write_with_liblmdb(folder / "dup", {{"a", "1"}, {"a", "2"}}, 0, MDB_DUPSORT);
  write_with_liblmdb(folder / "named", {{"a", "1"}, {"b", "2"}}, 0, 0, "train");
  write_with_liblmdb(folder / "reverse", {{"ab", "1"}, {"b", "2"}}, 0, MDB_REVERSEKEY);
  write_with_liblmdb(folder / "none", {});
  const ErrorInfo duplicates = error_of_reading(folder / "dup");
  CHECK(duplicates.code == ErrorCode::kUnsupported);
  CHECK(duplicates.cause.find("MDB_DUPSORT") != std::string::npos);
  const ErrorInfo named = error_of_reading(folder / "named");
  CHECK(named.code == ErrorCode::kUnsupported);
  CHECK(named.cause == "holds named sub-databases: \"train\"");
  CHECK(error_of_reading(folder / "reverse").code == ErrorCode::kUnsupported);
  CHECK(error_of_reading(folder / "none").cause.find("no entries") != std::string::npos);

  const json described = json::parse(format().describe(folder / "named", true));
  CHECK(described["databases"] == json::parse(R"([{"name":"","entries":1},
                                                  {"name":"train","entries":2}])"));
  CHECK(described["records"].size() == 2);
  CHECK(described["records"][1]["database"] == "train");
  CHECK(described["records"][1]["key"] == "b");
  CHECK(json::parse(format().describe(folder / "dup", false))["databases"][0]["entries"] == 2);
  CHECK(error_of([&] { format().describe(folder / "dup", true); }).code == ErrorCode::kUnsupported);
}

TEST_CASE("lmdb reader names the sample whose record is malformed", "[formats][lmdb]") {
  using namespace std::string_literals;
  const std::pair<std::string, std::string> cases[] = {
      {"", "cut off"},
      {"\x81\xa7__key", "cut off"},
      {"\x82\xa7__key__\xa1k", "cut off"},
      {"\xdf\xff\xff\xff\xff\xa7__key__\xa1k", "cut off"},
      {"\x82\xa7__key__\xa1k\xa1"
       "a\xc6\xff\xff\xff\xffx",
       "cut off"},
      {"\x82\xa7__key__\xa1k\xa1"
       "a\xc5\xffx",
       "cut off"},
      {"\xde\x01", "cut off"},
      {"\x80", "no __key__"},
      {"\x81\xa7__key__\xa0", "no __key__"},
      {"\x81\xa1"
       "a\xa1k",
       "no __key__"},
      {"\x82\xa7__key__\xa1k\xa7__key__\xa1k", "stands twice"},
      {"\x83\xa7__key__\xa1k\xa1"
       "a\xa0\xa1"
       "a\xa0",
       "stands twice"},
      {"\x82\xa7__key__\xa1k\xa1"
       "a\x03",
       "neither bin nor str"},
      {"\x82\xa7__key__\xa1k\x01\xa0", "neither str nor bin"},
      {"\x93\x01\x02\x03", "not a MessagePack map"},
      {kRecord + "x", "bytes follow"},
  };
  TemporaryFolder folder;
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    const fs::path path = folder / std::to_string(i);
    write_with_liblmdb(path, shard_of(cases[i].first));
    for (const Access access : {Access::kMap, Access::kRead}) {
      const ErrorInfo error = error_of_reading(path, access);
      INFO(i << ": " << error.cause);
      CHECK(error.code == ErrorCode::kDataLoss);
      CHECK(error.place == "sample 1");
      CHECK(error.cause.find(cases[i].second) != std::string::npos);
    }
  }
  // Longer forms than needed, str for bytes and any order are read.
  write_with_liblmdb(folder / "odd",
                     shard_of("\xdf\0\0\0\3\xda\0\1b\xdb\0\0\0\1y\xd9\1a\xc6\0\0\0\0\xc4\7"
                              "__key__\xc5\0\1q"s));
  CHECK(dump_all(format(), folder / "odd")[1] == "q|a=0:|b=1:y");
}

TEST_CASE("lmdb reader checks what a shard says about itself", "[formats][lmdb]") {
  TemporaryFolder folder;
  int number = 0;
  const auto error = [&](const Entries& entries) {
    const fs::path path = folder / std::to_string(number++);
    write_with_liblmdb(path, entries);
    return error_of_reading(path);
  };
  const auto described = [&](std::string_view text) { return error(shard_of(kRecord, text)); };
  CHECK(described(R"({"version":1,"count":3})").cause ==
        "the shard has 2 samples, its description says 3");
  CHECK(described(R"({"version":2,"count":2})").code == ErrorCode::kUnsupported);
  for (const char* text : {"", "{", "[]", "{}", R"({"version":1})", R"({"version":1,"count":-2})",
                           R"({"version":1,"count":"2"})", "{\"version\":1,\"count\":2\xff}"}) {
    CHECK(described(text).code == ErrorCode::kDataLoss);
  }
  Entries gap = shard_of(kRecord);
  gap[1].first = "000000000002";
  CHECK(error(gap).cause.find("sample 1 is missing") != std::string::npos);
  Entries undescribed = shard_of(kRecord);
  undescribed.pop_back();
  CHECK(error(undescribed).cause.find("older snapshot") != std::string::npos);
}

// A damaged meta page must never bring back an older, shorter state of the shard.
TEST_CASE("lmdb reader refuses older snapshots of a shard", "[formats][lmdb]") {
  TemporaryFolder folder;
  for (const std::size_t batch : {1, 3}) {
    for (const bool lower : {true, false}) {
      const fs::path path = folder / (std::to_string(batch) + (lower ? "lower" : "magic"));
      write_with_liblmdb(path, shard_of(kRecord), 0, 0, nullptr, batch);
      CHECK(dump_all(format(), path).size() == 2);
      // Transaction 3 and transaction 1 both stand in the second meta page.
      patch(path / "data.mdb", 4096 + (lower ? 144 : 16), std::string(4, '\0'));
      CHECK(error_of_reading(path).code == ErrorCode::kDataLoss);
    }
  }
}

TEST_CASE("lmdb index is refused for another file", "[formats][lmdb]") {
  TemporaryFolder folder;
  const fs::path path = folder / "d";
  Entries entries;
  for (int i = 0; i < 500; ++i) entries.emplace_back("k" + std::to_string(1000 + i), "value");
  write_with_liblmdb(path, entries);
  const std::vector<std::byte> index = format().build_index(path, Access::kMap);
  const auto reader = format().open(path, index, Access::kMap);
  SampleView sample;
  reader->read(0, sample);

  for (std::size_t size = 0; size < index.size(); size += 8) {
    const std::vector<std::byte> part(index.begin(), index.begin() + static_cast<long>(size));
    CHECK(error_of([&] { format().open(path, part, Access::kMap); }).code == ErrorCode::kDataLoss);
  }
  // Any flipped bit gives an error, or a reader that never strays from the file.
  for (std::size_t bit = 0; bit < index.size() * 8; ++bit) {
    std::vector<std::byte> bent = index;
    bent[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
    try {
      const auto strayed = format().open(path, bent, Access::kRead);
      for (std::uint64_t n = 0; n < strayed->size(); ++n) strayed->read(n, sample);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kDataLoss);
    }
  }
  // One key more: the open reader and the index notice. CASES.md row 76.
  write_with_liblmdb(path, {{"k9", "new"}});
  CHECK(error_of([&] { reader->read(0, sample); }).cause.find("writer has changed") !=
        std::string::npos);
  for (const Access access : {Access::kMap, Access::kRead}) {
    CHECK(error_of([&] { format().open(path, index, access); }).cause.find("another file") !=
          std::string::npos);
  }
  CHECK(dump_all(format(), path).size() == 501);
}

TEST_CASE("lmdb reader says why a file is no environment", "[formats][lmdb]") {
  using namespace std::string_literals;
  TemporaryFolder folder;
  write_with_liblmdb(folder / "good", {{"a", "1"}});
  const std::string good = read_text(folder / "good/data.mdb");
  const auto error = [&](std::string bytes, std::size_t offset, std::string_view change) {
    bytes.replace(offset, change.size(), change);
    write_text(folder / "bad.mdb", bytes);
    return error_of_reading(folder / "bad.mdb");
  };
  CHECK(error("", 0, "").code == ErrorCode::kDataLoss);
  CHECK(error(std::string(8192, '\0'), 0, "").code == ErrorCode::kUnsupported);
  CHECK(error(good.substr(0, 4096), 0, "").cause.find("truncated") != std::string::npos);
  CHECK(error(good.substr(0, 8192), 0, "").cause.find("truncated") != std::string::npos);
  CHECK(error(good, 16, "\0\0\0\0"s).code == ErrorCode::kDataLoss);
  CHECK(error(good, 20, "\2").cause == "LMDB data format 2, only format 1 is known");
  CHECK(error(good, 16, "\xBE\xEF\xC0\xDE").cause.find("big-endian") != std::string::npos);
  CHECK(error(good, 12, "\xDE\xC0\xEF\xBE\0\0\0\0"s).cause.find("32-bit") != std::string::npos);
  CHECK(error(good, 40, "\1").cause.find("page size") != std::string::npos);
  CHECK(error_of_reading(folder / "missing").code == ErrorCode::kNotFound);
}

TEST_CASE("lmdb reader reads read-only directories of other users", "[formats][lmdb]") {
  if (geteuid() != 0) return skip("needs root to become another user");
  TemporaryFolder folder;  // CASES.md row 28
  const fs::path path = folder / "d";
  write_with_liblmdb(path, shard_of(kRecord));
  fs::permissions(folder.path(), fs::perms(0755));
  fs::permissions(path / "data.mdb", fs::perms(0444));
  fs::permissions(path, fs::perms(0555));
  const pid_t child = fork();
  if (child == 0) {
    const bool other = setgroups(0, nullptr) == 0 && setgid(65534) == 0 && setuid(65534) == 0;
    bool read = false;
    try {
      read = other && access(path.c_str(), W_OK) != 0 && dump_all(format(), path).size() == 2;
    } catch (const std::exception&) {
    }
    _exit(read ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(std::distance(fs::directory_iterator(path), {}) == 1);
}

TEST_CASE("lmdb reader takes directories and files, makes nothing", "[formats][lmdb]") {
  TemporaryFolder temporary;
  if (!make_case("49", temporary.path())) return skip("the shared collection of faults is absent");
  const fs::path folder = temporary / "49";
  const auto listing = [&] {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      names.push_back(entry.path().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  };
  const std::vector<std::string> before = listing();
  for (const char* name : {"dir.lmdb", "dir.lmdb/data.mdb", "single.lmdb"}) {
    CHECK(dump_all(format(), folder / name) == std::vector<std::string>{"k|bin=1:v"});
  }
  const ErrorInfo empty = error_of_reading(folder / "empty.lmdb");
  CHECK(empty.cause.find("no data.mdb") != std::string::npos);
  CHECK(empty.path == (folder / "empty.lmdb").string());
  const ErrorInfo zeros = error_of_reading(folder / "zeros.lmdb");
  CHECK(zeros.cause.find("not an LMDB file") != std::string::npos);
  CHECK(zeros.path.starts_with((folder / "zeros.lmdb").string()));
  CHECK(error_of_reading(folder / "missing.lmdb").code == ErrorCode::kNotFound);
  CHECK_FALSE(format().recognises(folder / "empty.lmdb"));
  CHECK_FALSE(format().recognises(folder / "missing.lmdb"));
  CHECK(listing() == before);
}

TEST_CASE("lmdb readers need no reader slots", "[formats][lmdb]") {
  TemporaryFolder folder;  // CASES.md row 61
  write_with_liblmdb(folder / "d", shard_of(kRecord));
  std::vector<std::unique_ptr<OpenShard>> shards;
  SampleView sample;
  for (int i = 0; i < 140; ++i) {
    shards.push_back(std::make_unique<OpenShard>(format(), folder / "d", Access::kMap));
  }
  for (const auto& shard : shards) {
    shard->reader().read(1, sample);
    CHECK(sample.key == "k");
  }
}

TEST_CASE("lmdb descriptions agree with what other tools say of real files", "[formats][lmdb]") {
  const fs::path zoo = shared_path("zoo");
  if (zoo.empty()) return skip("the zoo of real files is absent");
  std::map<std::string, std::vector<json>> records;
  std::map<std::string, json> environments;
  std::ifstream rows(zoo / "expected.tsv");
  for (std::string path, kind, facts; std::getline(rows, path, '\t') &&
                                      std::getline(rows, kind, '\t') &&
                                      std::getline(rows, facts);) {
    if (kind == "lmdb.env") environments[path] = json::parse(facts);
    if (kind == "lmdb.record") records[path].push_back(json::parse(facts));
  }
  REQUIRE(environments.size() >= 9);
  std::size_t lines = environments.size();
  for (const auto& [path, list] : records) lines += list.size();
  std::cout << "expected.tsv: checked " << lines << " lines of lmdb" << std::endl;
  for (const auto& [path, facts] : environments) {
    INFO(path);
    CHECK(format().recognises((zoo / path).parent_path()));
    if (facts["expect"] != "ok") {
      const ErrorInfo error = error_of([&] { format().describe(zoo / path, true); });
      CHECK((error.code == ErrorCode::kUnsupported || error.code == ErrorCode::kDataLoss));
      CHECK(error.path == (zoo / path).string());
      CHECK(error_of_reading(zoo / path).cause == error.cause);
      continue;
    }
    const json described = json::parse(format().describe(zoo / path, true));
    CHECK(described["page_size"] == facts["page_size"]);
    CHECK(described["map_size"] == facts["map_size"]);
    CHECK(described["transaction"] == facts["last_txnid"]);
    CHECK(described["databases"][0]["entries"] == facts["entries"]);
    CHECK(described["records"].size() == facts["records_total"]);
    const json named = facts.value("named_dbs", json::object());
    REQUIRE(described["databases"].size() == 1 + named.size());
    for (std::size_t i = 1; i <= named.size(); ++i) {
      const json& database = described["databases"][i];
      CHECK(database["entries"] == named.at(database["name"].get<std::string>())["entries"]);
    }
    REQUIRE(described["records"].size() == records[path].size());
    for (std::size_t i = 0; i < records[path].size(); ++i) {
      const json& record = described["records"][i];
      const json& expected = records[path][i];
      CHECK(record.value("database", "") == expected["db"]);
      CHECK(record["key"] == expected_key(expected));
      CHECK(record["bytes"] == expected["value_len"]);
      CHECK(record["sha256"] == expected["value_sha256"]);
    }
    if (!named.empty()) {
      CHECK(error_of_reading(zoo / path).code == ErrorCode::kUnsupported);
    } else {
      const bool text = path.find("mmocr") != std::string::npos;  // pairs, and their number
      const std::string way = text ? "#as=plain" : "";
      CHECK(dump_all(format(), (zoo / path).string() + way).size() == facts["entries"]);
    }
  }
}
