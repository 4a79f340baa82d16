// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/formats/tar_support.h"

using namespace shardmill;
using namespace shardmill::test;
using Json = nlohmann::json;

namespace {

std::string padded(std::string text) {
  text.resize((text.size() + 511) / 512 * 512);
  return text;
}

// One header block in the given dialect, made independently of the code under test.
std::string header(const std::string& name, const std::string& size, char type = '0',
                   const std::string& magic = std::string("ustar\00000", 8)) {
  std::string block(512, '\0');
  block.replace(0, name.size(), name);
  block.replace(100, 8, std::string("0000644\0", 8));
  block.replace(124, size.size(), size);
  block.replace(148, 8, "        ");
  block[156] = type;
  block.replace(257, magic.size(), magic);
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  char digits[8];
  std::snprintf(digits, sizeof digits, "%06o", sum);
  block.replace(148, 7, std::string(digits, 7));
  return block;
}

std::string octal(std::size_t size) {
  char digits[13];
  std::snprintf(digits, sizeof digits, "%011zo", size);
  return std::string(digits, 12);
}

std::string member(const std::string& name, const std::string& data, char type = '0') {
  return header(name, octal(data.size()), type) + padded(data);
}

std::string pax(const std::string& records, char type = 'x') {
  return header("././@PaxHeader", octal(records.size()), type) + padded(records);
}

const std::string kEnd(1024, '\0');

Error failure(const fs::path& path) {
  try {
    contents(path);
  } catch (const Error& error) {
    return error;
  }
  FAIL("no error for " << path);
  std::abort();
}

std::string warnings(const fs::path& path) {
  OpenShard shard(tar(), path, Access::kRead);
  std::string all;
  for (const std::string& line : shard.reader().info().warnings) all += line + "\n";
  return all;
}

}  // namespace

TEST_CASE("TarReader groups adjacent members by WebDataset's rule", "[formats][tar]") {
  TemporaryFolder folder;
  const fs::path path = folder / "a.tar";
  write_text(path, member("d.x/a.seg.PNG", "mask") + member("d.x/a.jpg", "image") +
                       member("d.x/", "", '5') + member("d.x/a.cls", "7") + member("b.txt", "") +
                       member("noext", "1") + member("._b.txt", "junk") +
                       member("__meta__/x.json", "{}") + member("link.jpg", "", '2') +
                       member("__MACOSX/._b.jpg", "junk") + member("PaxHeader/b.jpg", "junk") +
                       member("b.cls", "8") + kEnd);
  const auto all = contents(path);
  REQUIRE(all.size() == 2);
  CHECK(all.at("d.x/a") ==
        std::map<std::string, std::string>{{"cls", "7"}, {"jpg", "image"}, {"seg.png", "mask"}});
  CHECK(all.at("b") == std::map<std::string, std::string>{{"cls", "8"}, {"txt", ""}});
  CHECK(contents(path, Access::kRead) == all);
  const std::string said = warnings(path);
  CHECK_THAT(said, Catch::Contains("2 directories, links or special members left out"));
  CHECK_THAT(said, Catch::Contains("4 hidden or metadata members left out"));
  CHECK_THAT(said, Catch::Contains("1 members without an extension left out (first: \"noext\")"));
}

TEST_CASE("TarReader knows the dialects of names and sizes", "[formats][tar]") {
  TemporaryFolder folder;
  const fs::path path = folder / "a.tar";
  const std::string long_name = std::string(90, 'd') + "/" + std::string(300, 'n') + ".txt";
  const std::string v7 = header("v7.txt", octal(2), '\0', "");
  std::string base256(12, '\0');
  base256[0] = static_cast<char>(0x80);
  base256[11] = 3;
  const auto record = [](const std::string& text) {
    return std::to_string(text.size() + 4) + " " + text + "\n";  // two digits
  };
  const std::string big = header("big.txt", octal(0)) + padded(std::string(700, 'Z'));
  write_text(path, v7 + padded("v7") + member("././@LongLink", long_name + '\0', 'L') +
                       member("cut.txt", "long") + header("b256.txt", base256, '0', "ustar  ") +
                       padded("256") + pax(record("path=p/ä.txt") + record("mtime=1.5")) +
                       member("short.txt", "pax") + pax(record("size=700")) + big +
                       pax(record("comment=x"), 'g') + member("last.txt", "!") + kEnd);
  const auto all = contents(path);
  CHECK(all.size() == 6);
  CHECK(all.at("v7").at("txt") == "v7");
  CHECK(all.at(long_name.substr(0, long_name.size() - 4)).at("txt") == "long");
  CHECK(all.at("b256").at("txt") == "256");
  CHECK(all.at("p/ä").at("txt") == "pax");
  CHECK(all.at("big").at("txt") == std::string(700, 'Z'));
  CHECK(all.at("last").at("txt") == "!");
  CHECK(contents(path, Access::kRead) == all);
}

TEST_CASE("TarReader reports damage with its offset", "[formats][tar]") {
  TemporaryFolder folder;
  const fs::path path = folder / "a.tar";
  const std::string first = member("a.txt", "one");
  const auto damage = [&](const std::string& bytes, const std::string& words) {
    write_text(path, bytes);
    const Error error = failure(path);
    CHECK(error.code() == ErrorCode::kDataLoss);
    CHECK(error.info().path == path.string());
    CHECK_THAT(error.what(), Catch::Contains(words));
  };
  std::string flipped = first + member("b.txt", "two") + kEnd;
  flipped[1024 + 3] ^= 1;
  damage(flipped, "offset 1024: damaged tar header: the checksum does not fit");
  damage(first.substr(0, 600), "offset 0: the archive is truncated");
  damage(first.substr(0, 514), "member \"a.txt\" needs 3 from 512");
  damage(first + first.substr(0, 100), "offset 1024: the archive is truncated");
  damage(first + header("b.txt", "zz") + kEnd, "malformed size");
  damage(first + header("b.txt", std::string(12, '\xff')) + kEnd, "malformed size");
  damage(first + pax("99 path=x\n") + member("b.txt", "") + kEnd, "malformed pax header record");
  damage(first + pax("12 path=abc\n"), "offset 2048: the archive is truncated");
  damage(first + pax("12 path=abc\n") + kEnd, "extended header has no member");
  damage(first + pax("20 size=99999999999\n") + member("b.txt", "") + kEnd, "truncated");
  damage("", "not a tar archive");
  damage(first + member("A.TXT", "") + member("a.txt", "") + member("a.Txt", "") + kEnd,
         "sample \"a\" field \"txt\": duplicate field");
}

TEST_CASE("TarReader warns of what may be a loss", "[formats][tar]") {
  TemporaryFolder folder;
  const fs::path path = folder / "a.tar";
  const std::string one = member("a.txt", "one");
  write_text(path, one);
  CHECK(contents(path).size() == 1);
  CHECK_THAT(warnings(path), Catch::Contains("no end mark"));
  write_text(path, one + std::string(512, '\0'));
  CHECK_THAT(warnings(path), Catch::Contains("one block of zeros instead of two"));
  write_text(path, one + kEnd + member("b.txt", "two") + kEnd);
  CHECK(contents(path).size() == 1);
  CHECK_THAT(warnings(path), Catch::Contains("end mark at offset 1024 is followed by data"));
  write_text(path, one + std::string(2 << 20, '\0'));
  CHECK_THAT(warnings(path), Catch::Contains("the end of the archive may be lost"));
  write_text(path, one + member("b.txt", "two") + member("a.cls", "1") + kEnd);
  OpenShard shard(tar(), path);
  CHECK(shard.reader().size() == 3);
  CHECK_THAT(warnings(path), Catch::Contains("1 keys occur again in another place"));
  write_text(path, one + kEnd);
  CHECK(warnings(path).empty());
}

TEST_CASE("TarReader refuses sparse members by name", "[formats][tar]") {
  TemporaryFolder folder;
  for (const std::string& format : {std::string("gnu"), std::string("posix")}) {
    const std::string path = (folder / (format + ".tar")).string();
    const auto made = run_command("cd '" + folder.path().string() +
                                  "' && printf 'A' > s.bin && truncate -s 1M s.bin && "
                                  "printf 'B' >> s.bin && tar --sparse --format=" +
                                  format + " -cf '" + path + "' s.bin");
    REQUIRE(made.status == 0);
    const Error error = failure(path);
    CHECK(error.code() == ErrorCode::kUnsupported);
    CHECK_THAT(error.what(), Catch::Contains("member \"s.bin\": sparse"));
    const Json json = Json::parse(tar().describe(path, true));
    CHECK(json["members"][0]["name"] == "s.bin");
    CHECK(json["members"][0]["bytes"] == 1048577);
  }
}

TEST_CASE("TarReader notices an index of another file", "[formats][tar]") {
  TemporaryFolder folder;
  const fs::path path = folder / "a.tar";
  write_text(path, member("a.txt", "first") + member("b.txt", "12345") + kEnd);
  alignas(8) const auto index = tar().build_index(path, Access::kMap);
  for (const Access access : {Access::kMap, Access::kRead}) {
    // Same size: only the header in front of the value tells.
    write_text(path, member("a.txt", "other") + member("c.txt", "12345") + kEnd);
    const auto reader = tar().open(path, index, access);
    SampleView view;
    reader->read(0, view);
    CHECK(as_text(view.fields[0].bytes) == "other");
    CHECK_THROWS_WITH(reader->read(1, view),
                      Catch::Contains("sample \"b\" field \"txt\": the index is stale"));
    write_text(path, member("a.txt", "first") + kEnd);
    CHECK_THROWS_WITH(tar().open(path, index, access), Catch::Contains("the index is stale"));
  }
}

TEST_CASE("TarReader refuses a damaged index", "[formats][tar]") {
  TemporaryFolder folder;
  const fs::path path = folder / "a.tar";
  write_text(path, member("a.txt", "first") + member("a.cls", "1") + member("b.txt", "2") + kEnd);
  const auto good = tar().build_index(path, Access::kMap);
  std::size_t refused = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      auto index = good;
      index[at] ^= static_cast<std::byte>(1 << bit);
      try {
        const auto reader = tar().open(path, index, Access::kMap);
        SampleView view;
        for (std::uint64_t n = 0; n < std::min<std::uint64_t>(reader->size(), 4); ++n) {
          reader->will_need(n);
          reader->read(n, view);
        }
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kDataLoss);
        ++refused;
      }
    }
  }
  CHECK(refused > good.size());
  for (const std::size_t size : {std::size_t{0}, std::size_t{16}, good.size() - 8}) {
    const std::vector<std::byte> cut(good.begin(),
                                     good.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK_THROWS_AS(tar().open(path, cut, Access::kMap), Error);
  }
}

TEST_CASE("tar is recognised by content", "[formats][tar]") {
  TemporaryFolder folder;
  const auto recognised = [&](const std::string& bytes) {
    write_text(folder / "file", bytes);
    return tar().recognises(folder / "file");
  };
  CHECK(recognised(member("a.txt", "1")));
  CHECK(recognised(kEnd));
  CHECK(recognised(std::string(10240, '\0')));
  CHECK_FALSE(recognised(""));
  CHECK_FALSE(recognised(std::string(512, 'x')));
  CHECK_FALSE(recognised(std::string(8192, '\0')));
  CHECK_FALSE(recognised(std::string(100, '\0')));
  CHECK_FALSE(tar().recognises(folder.path()));
  CHECK_FALSE(tar().recognises(folder / "missing"));
}

TEST_CASE("describe lists every member", "[formats][tar]") {
  TemporaryFolder folder;
  write_text(folder / "a.tar", member("d/", "", '5') + member("d/caf\xe9.txt", "abc") +
                                   member("link", "", '2') + kEnd);
  const Json json = Json::parse(tar().describe(folder / "a.tar", true));
  CHECK(json["format"] == "tar");
  REQUIRE(json["members"].size() == 3);
  CHECK(json["members"][0] == Json({{"name", "d"}, {"type", "5"}, {"bytes", 0}, {"offset", 512}}));
  CHECK(json["members"][1]["name"] == "d/caf\\xe9.txt");
  CHECK(json["members"][1]["bytes"] == 3);
  CHECK(json["members"][1]["offset"] == 1024);
  CHECK(json["members"][1]["sha256"] ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(json["members"][2]["type"] == "2");
  CHECK_FALSE(json["members"][2].contains("sha256"));
  CHECK_FALSE(
      Json::parse(tar().describe(folder / "a.tar", false))["members"][1].contains("sha256"));
}
