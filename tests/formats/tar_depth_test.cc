// SPDX-License-Identifier: Apache-2.0
// Archives at their limits: damage everywhere, members of many gigabytes, other programs' indices.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/formats/tar_archive.h"
#include "tests/formats/tar_support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

std::vector<std::string> warnings(const fs::path& path, Access access = Access::kMap) {
  OpenShard shard(tar(), path, access);
  return shard.reader().info().warnings;
}

// Every dialect's way to say a name or a size, one sample each.
std::string every_dialect() {
  const std::string name = std::string(120, 'n') + ".txt";
  return tar_header("v7.txt", tar_octal(2), '\0', "") + tar_padded("v7") +
         tar_member("u.cls", "1") + tar_member("u.txt", "ustar") +
         tar_member("././@LongLink", name + '\0', 'L') + tar_member("cut.txt", "long") +
         tar_header("b.txt", tar_base256(3), '0', "ustar  ") + tar_padded("256") +
         tar_pax(pax_text("comment=all"), 'g') +
         tar_pax(pax_text("path=p/x.txt") + pax_text("mtime=1.5")) +
         tar_member("short.txt", "pax") + tar_pax(pax_text("size=700")) +
         tar_header("s.txt", tar_octal(0)) + tar_padded(std::string(700, 'Z')) +
         tar_member("d/", "", '5') + tar_member("last.txt", std::string(1500, 'L')) + kTarEnd;
}

}  // namespace

TEST_CASE("An archive cut anywhere is an error, or says that its end is missing",
          "[formats][tar][damage]") {
  TemporaryFolder folder;
  const std::string good = every_dialect();
  write_text(folder / "good.tar", good);
  OpenShard whole(tar(), folder / "good.tar");
  const SampleList all = contents_in_order(whole.reader());
  REQUIRE(all.size() == 7);
  const fs::path path = folder / "cut.tar";
  for (std::size_t part = 0; part < 64; ++part) {
    // Also at each block: where a cut is hardest to see.
    for (const std::size_t size : {good.size() * part / 64, part * 512}) {
      if (size >= good.size()) continue;
      write_text(path, good.substr(0, size));
      for (const Access access : {Access::kMap, Access::kRead}) {
        try {
          OpenShard shard(tar(), path, access);
          const SampleList read = contents_in_order(shard.reader());
          const auto said = shard.reader().info().warnings;
          const bool told = std::any_of(said.begin(), said.end(), [](const std::string& line) {
            return line.find("no end mark") != std::string::npos ||
                   line.find("one block of zeros") != std::string::npos;
          });
          CHECK(told);
          CHECK(read.size() <= all.size());
        } catch (const Error& error) {
          CHECK(error.code() == ErrorCode::kDataLoss);
          CHECK(error.info().path == path.string());
        }
      }
    }
  }
}

TEST_CASE("A flipped bit in a header is an error, one in data changes only that",
          "[formats][tar][damage]") {
  TemporaryFolder folder;
  const std::string good = every_dialect();
  write_text(folder / "good.tar", good);
  OpenShard whole(tar(), folder / "good.tar");
  const SampleList all = contents_in_order(whole.reader());
  const fs::path path = folder / "flip.tar";
  std::size_t errors = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] ^= static_cast<char>(1 << at % 8);
    write_text(path, bad);
    SampleList read;
    try {
      OpenShard shard(tar(), path, at % 2 == 0 ? Access::kMap : Access::kRead);
      read = contents_in_order(shard.reader());
      CHECK((streamed(path) == read));
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kDataLoss);
      ++errors;
      continue;
    }
    // Never fewer samples in silence: an end mark that turned into data is warned of.
    if (read.size() != all.size()) CHECK_FALSE(warnings(path).empty());
  }
  CHECK(errors > good.size() / 4);  // all headers are structure
}

TEST_CASE("Members of many gigabytes are found behind each other", "[formats][tar]") {
  TemporaryFolder folder;
  const fs::path path = folder / "big.tar";
  const std::uint64_t size = (std::uint64_t{9} << 30) + 5;
  const auto put = [&](int fd, const std::string& text, std::uint64_t at) {
    REQUIRE(pwrite(fd, text.data(), text.size(), static_cast<off_t>(at)) ==
            static_cast<ssize_t>(text.size()));
    return at + text.size();
  };
  const std::uint64_t stored = (size + 511) / 512 * 512;
  {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT, 0600);
    std::uint64_t at = put(fd, tar_header("a.bin", tar_base256(size), '0', "ustar  "), 0) + stored;
    at = put(fd, tar_member("b.txt", "between"), at);
    at = put(fd,
             tar_pax(pax_text("size=" + std::to_string(size))) + tar_header("c.bin", tar_octal(0)),
             at);
    put(fd, "tail!", at + size - 5);
    put(fd, tar_member("d.txt", "last") + kTarEnd, at + stored);
    close(fd);
  }
  OpenShard shard(tar(), path);
  REQUIRE(shard.reader().size() == 4);
  SampleView view;
  shard.reader().read(2, view);
  CHECK(view.fields[0].bytes.size() == size);
  CHECK(as_text(view.fields[0].bytes.last(5)) == "tail!");
  shard.reader().read(3, view);
  CHECK(as_text(view.fields[0].bytes) == "last");
  CHECK(warnings(path).empty());
}

TEST_CASE("pax headers for all members", "[formats][tar]") {
  TemporaryFolder folder;
  // A global record holds until another one; a local one comes first; an empty value ends it.
  write_text(folder / "g.tar", tar_pax(pax_text("size=4") + pax_text("LIBARCHIVE.x=1"), 'g') +
                                   tar_header("a.txt", tar_octal(0)) + tar_padded("four") +
                                   tar_pax(pax_text("size=2") + pax_text("SCHILY.xattr.u=\1\2")) +
                                   tar_header("b.txt", tar_octal(0)) + tar_padded("tw") +
                                   tar_header("c.txt", tar_octal(0)) + tar_padded("FOUR") +
                                   tar_pax(pax_text("size=1"), 'g') +
                                   tar_header("d.txt", tar_octal(0)) + tar_padded("1") + kTarEnd);
  const TarContents all = contents(folder / "g.tar");
  CHECK(all.at("a").at("txt") == "four");
  CHECK(all.at("b").at("txt") == "tw");
  CHECK(all.at("c").at("txt") == "FOUR");
  CHECK(all.at("d").at("txt") == "1");
}

TEST_CASE("What people get wrong in archives is explained", "[formats][tar]") {
  TemporaryFolder folder;
  const auto said = [&](const std::string& members) {
    write_text(folder / "a.tar", members + kTarEnd);
    std::string all;
    for (const std::string& line : warnings(folder / "a.tar")) all += line + "\n";
    return all;
  };
  CHECK_THAT(said(tar_member("a.jpg", "1") + tar_member("b.jpg", "2") + tar_member("a.cls", "3")),
             Catch::Contains("1 keys occur again in another place with other fields") &&
                 Catch::Contains("pack with tar --sort=name") && Catch::Contains("\"a\""));
  CHECK_THAT(said(tar_member("a.jpg", "1") + tar_member("b.jpg", "2") + tar_member("a.jpg", "3")),
             Catch::Contains("1 keys occur again in another place and are separate samples"));
  CHECK_THAT(said(tar_member("a.JPG", "1") + tar_member("b.Cls", "2")),
             Catch::Contains("2 field names with capital letters taken in lower case (first: "
                             "\"a.JPG\")"));
}

TEST_CASE("Indices of other programs are used or found wrong", "[formats][tar][cases]") {
  TemporaryFolder folder;
  const fs::path path = folder / "s.tar";
  const std::string first = tar_member("d/a.CLS", "1") + tar_member("d/a.jpg", "image");
  write_text(path, first + tar_member("b.jpg", "xyz") + kTarEnd);
  const TarContents all = contents(path);
  const auto index_size = [&] { return tar().build_index(path, Access::kMap).size(); };
  const auto said = [&] {
    std::string text;
    for (const std::string& line : warnings(path)) text += line + "\n";
    return text;
  };
  const std::size_t walked = index_size();
  const std::string dali = "v1.2 2\nCLS 512 1 d/a.CLS jpg 1536 5 d/a.jpg\njpg 2560 3 b.jpg\n";
  write_text(folder / "s.idx", dali);
  CHECK(contents(path) == all);
  CHECK(contents(path, Access::kRead) == all);
  CHECK(index_size() == walked);
  // The walk is spared: a header that is wrong shows when it is read, and only then.
  std::string bytes = read_text(path);
  bytes[2048 + 1] ^= 1;
  write_text(path, bytes);
  write_text(folder / "s.idx", dali);
  {
    OpenShard shard(tar(), path);
    SampleView view;
    shard.reader().read(0, view);
    CHECK(as_text(view.fields[0].bytes) == "1");
    CHECK_THROWS_WITH(shard.reader().read(1, view), Catch::Contains("the index is stale"));
    CHECK_THROWS_WITH(OpenShard(tar(), path, Access::kRead), Catch::Contains("offset 2048"));
  }
  bytes[2048 + 1] ^= 1;
  write_text(path, bytes);
  // Wrong indices: the archive has the last word.
  for (const std::string& wrong :
       {std::string("v1.2 1\nCLS 512 1 d/a.CLS jpg 1536 5 d/a.jpg\n"),
        std::string("v1.2 2\nCLS 512 1 d/a.CLS\njpg 2560 3 b.jpg\n"),
        std::string(
            "v1.2 2\nCLS 512 1 d/a.CLS jpg 1536 5 d/a.jpg jpg 2560 3 b.jpg\njpg 0 0 c.jpg\n"),
        std::string("v1.1 1\nCLS 512 1 jpg 1536 5\n"), std::string("v1.0 2\nx 1024 1\ny 2560 3\n"),
        std::string("v1.2 2\nCLS 513 1 d/a.CLS\njpg 2560 3 b.jpg\n"), std::string("v2.0 1\n"),
        std::string("junk"), std::string("")}) {
    INFO(wrong);
    write_text(folder / "s.idx", wrong);
    CHECK(contents(path) == all);
    const bool fits_not = said().find("does not fit") != std::string::npos ||
                          said().find("s.idx") != std::string::npos;
    CHECK(fits_not == (wrong.find("\njpg 2560 3 b.jpg\n") == std::string::npos ||
                       wrong.find("513") != std::string::npos));
  }
  write_text(folder / "s.idx", "v1.0 2\nCLS 512 1 jpg 1536 5\njpg 2560 3\n");
  CHECK(said().empty() == false);  // capital letters
  CHECK_THAT(said(), !Catch::Contains("does not fit"));
  // Energon: offsets of headers, and the end.
  fs::remove(folder / "s.idx");
  const auto energon = [&](std::vector<std::uint64_t> offsets) {
    write_text(folder / "s.tar.idx",
               {reinterpret_cast<const char*>(offsets.data()), offsets.size() * 8});
    CHECK(contents(path) == all);
    return said();
  };
  CHECK_THAT(energon({0, 2048, 3072}), !Catch::Contains("fit"));
  CHECK_THAT(energon({0, 3072}), Catch::Contains("Energon index s.tar.idx does not fit: it has 1 "
                                                 "samples, the archive 2"));
  CHECK_THAT(energon({0, 1024, 3072}), Catch::Contains("has sample 1 in another place"));
  CHECK_THAT(energon({0, 7, 3072}), Catch::Contains("malformed index"));
  // Older than the archive: stale.
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  write_text(folder / "s.tar.idx", std::string(8, '\0'));
  REQUIRE(utimensat(AT_FDCWD, (folder / "s.tar.idx").c_str(), old, 0) == 0);
  CHECK_THAT(said(), Catch::Contains("s.tar.idx is older than the archive and is not used"));
}
