// SPDX-License-Identifier: Apache-2.0
// Other people's archives, with facts that other programs found in them.
#include <shardmill/formats/digest.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/formats/tar_support.h"

using namespace shardmill;
using namespace shardmill::test;
using Json = nlohmann::json;

namespace {

struct Archive {
  Json facts;
  std::vector<Json> members;
};

// Reads the rows on tar archives, by path.
std::map<std::string, Archive> archives(const fs::path& zoo) {
  std::map<std::string, Archive> all;
  std::ifstream in(zoo / "expected.tsv");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find('\t');
    const std::size_t second = line.find('\t', first + 1);
    const std::string path = line.substr(0, first);
    const std::string kind = line.substr(first + 1, second - first - 1);
    if (kind == "tar.archive") all[path].facts = Json::parse(line.substr(second + 1));
    if (kind == "tar.member") all[path].members.push_back(Json::parse(line.substr(second + 1)));
  }
  return all;
}

bool is_compressed(const std::string& path) {
  return !path.ends_with(".tar") && !path.ends_with(".pax");
}

std::string describe(const fs::path& file) {
  if (!is_compressed(file.string())) return tar().describe(file, true);
  return tar().describe_stream(*open_source(file), true);
}

void check_member(const Json& got, const Json& fact) {
  CHECK(got["type"] == fact["type"]);
  if (fact.contains("name")) CHECK(got["name"] == fact["name"]);
  if (got.contains("sparse")) return;  // listed, not expanded
  CHECK(got["bytes"] == fact["size"]);
  if (!fact.contains("content_sha256")) return;
  CHECK(got["offset"] == fact["offset_data"]);
  CHECK(got["sha256"] == fact["content_sha256"]);
}

// An archive that ends too early: what lies in front of the end is there, the rest is named.
void check_cut_archive(const fs::path& file, const std::vector<Json>& facts) {
  std::map<std::string, std::string> sums;
  std::string cause;
  try {
    const auto source = open_source(file);
    const auto stream = tar().stream(*source);
    for (SampleView view; stream->next(view);) {
      for (const FieldView& field : view.fields) {
        Sha256 sha;
        sha.update(field.bytes);
        sums[std::string(view.key) + "." + std::string(field.name)] = sha.hex();
      }
    }
  } catch (const Error& error) {
    cause = error.info().cause;
  }
  for (const Json& fact : facts) {
    const std::string name = fact["name"];
    INFO(name);
    if (fact.contains("content_sha256")) {
      CHECK(sums[name] == fact["content_sha256"]);
    } else {
      CHECK(sums.count(name) == 0);
      CHECK(cause.find("\"" + name + "\"") != std::string::npos);
    }
  }
}

}  // namespace

TEST_CASE("Archives of many programs are described as others see them", "[formats][tar][zoo]") {
  const fs::path zoo = shared_path("zoo");
  if (zoo.empty()) return skip("the collection of real files is absent");
  const auto all = archives(zoo);
  REQUIRE(all.size() > 50);
  std::size_t members = 0;
  for (const auto& [path, archive] : all) {
    INFO(path);
    const auto expect = archive.facts["expect"].get<std::string>();
    try {
      const Json json = Json::parse(describe(zoo / path));
      CHECK_FALSE(expect.starts_with("reject"));
      // Where Python stops at a sparse member, its list is shorter.
      const bool python_reads = expect == "ok" || expect.starts_with("mixed: python ok");
      if (python_reads) REQUIRE(json["members"].size() == archive.members.size());
      REQUIRE(json["members"].size() >= archive.members.size());
      for (std::size_t i = 0; i < archive.members.size(); ++i) {
        check_member(json["members"][i], archive.members[i]);
        ++members;
      }
    } catch (const Error& error) {
      INFO(error.what());
      CHECK(error.code() == ErrorCode::kDataLoss);
      CHECK(expect != "ok");
      check_cut_archive(zoo / path, archive.members);
      members += archive.members.size();
    }
  }
  std::size_t listed = 0;
  for (const auto& [path, archive] : all) listed += archive.members.size();
  CHECK(members == listed);
  std::cout << "expected.tsv: checked " << all.size() << " tar archives and " << members
            << " members\n";
}

TEST_CASE("Archives of many programs give the samples that WebDataset gives",
          "[formats][tar][zoo]") {
  const fs::path zoo = shared_path("zoo");
  if (zoo.empty()) return skip("the collection of real files is absent");
  std::size_t compared = 0;
  for (const auto& [path, archive] : archives(zoo)) {
    INFO(path);
    try {
      if (is_compressed(path)) continue;
      OpenShard shard(tar(), zoo / path);
      // A stream of the same bytes gives the same samples.
      CHECK(streamed(zoo / path) == contents_in_order(shard.reader()));
      if (!archive.facts.contains("wds_samples")) continue;
      ++compared;
      REQUIRE(shard.reader().size() == archive.facts["wds_samples"]);
      std::set<std::string> extensions;
      std::vector<std::string> keys;
      SampleView view;
      for (std::uint64_t n = 0; n < shard.reader().size(); ++n) {
        shard.reader().read(n, view);
        keys.emplace_back(view.key);
        for (const FieldView& field : view.fields) extensions.emplace(field.name);
      }
      CHECK(keys.back() == archive.facts["wds_last_key"]);
      const auto first = archive.facts["wds_first_keys"].get<std::vector<std::string>>();
      CHECK(std::equal(first.begin(), first.end(), keys.begin()));
      CHECK(extensions == archive.facts["wds_extensions"].get<std::set<std::string>>());
    } catch (const Error& error) {
      const bool told = error.code() == ErrorCode::kDataLoss ||
                        error.code() == ErrorCode::kUnsupported;  // sparse
      CHECK(told);
    }
  }
  CHECK(compared >= 5);
}

TEST_CASE("Faults that people met with tar files are right", "[formats][tar][cases]") {
  TemporaryFolder folder;
  if (shared_path("cases").empty()) return skip("the collection of faults is absent");
  for (const char* id : {"22", "37", "40", "44", "58", "62", "73", "74"}) {
    REQUIRE(make_case(id, folder.path()));
  }
  const auto count = [&](const char* name) { return contents(folder / name).size(); };
  CHECK(contents(folder / "22/z.tar").at("k1").at("jpg").empty());
  const TarContents mac = contents(folder / "37/mac.tar");
  CHECK(mac.size() == 2);
  CHECK(mac.at("a").size() == 2);
  CHECK(mac.at("b").size() == 2);
  CHECK(contents(folder / "40/pax.tar") == contents(folder / "40/gnu.tar"));
  CHECK(count("40/gnu.tar") == 2);
  CHECK(contents(folder / "40/paxsize.tar").at("big").at("bin") == std::string(1000, 'Z'));
  CHECK(contents(folder / "40/paxsize.tar").at("big").at("cls") == "4");
  CHECK(contents(folder / "40/gpax.tar").at("a").at("cls") == "3");
  CHECK(contents(folder / "44/up.tar").at("A").count("cls") == 1);
  CHECK(contents(folder / "44/up.tar").at("b").count("jpg") == 1);
  CHECK_THROWS_WITH(contents(folder / "44/clash.tar"), Catch::Contains("duplicate field"));
  for (const char* dialect : {"58/ustar.tar", "58/gnu.tar", "58/pax.tar"}) {
    for (const auto& [key, fields] : contents(folder / dialect)) {
      CHECK(std::to_string(key.size() + 4) == fields.at("jpg"));
    }
  }
  const TarContents optional = contents(folder / "62/opt.tar");
  CHECK(optional.at("s1").count("cls") == 0);
  CHECK(optional.at("s2").at("cls").empty());
  CHECK(optional.at("s3").size() == 3);
  CHECK_THROWS_WITH(contents(folder / "73/sparse_gnu.tar"), Catch::Contains("\"s.bin\": sparse"));
  CHECK_THROWS_WITH(contents(folder / "73/sparse_posix.tar"), Catch::Contains("\"s.bin\": sparse"));
  CHECK(contents(folder / "74/latin1.tar").at("caf\xe9").at("cls") == "3");
}
