// SPDX-License-Identifier: Apache-2.0
// Archives that come once, from front to back, mostly compressed.
#include <algorithm>

#include "tests/formats/tar_support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

// A tar of `count` samples, one of them of 3 MB, made by Python's tarfile in the given dialect.
fs::path make_tar(const TemporaryFolder& folder, const std::string& dialect, int count) {
  write_text(folder / "make.py",
             "import io, random, tarfile\n"
             "random.seed(7)\n"
             "t = tarfile.open('" +
                 dialect + ".tar', 'w', format=tarfile." + dialect +
                 "_FORMAT)\n"
                 "def add(name, data):\n"
                 "  i = tarfile.TarInfo(name); i.size = len(data); i.mtime = 1.5\n"
                 "  t.addfile(i, io.BytesIO(data))\n"
                 "for n in range(" +
                 std::to_string(count) +
                 "):\n"
                 "  add(f'd/{n:04d}.jpg', random.randbytes(3_000_000 if n == 5 else n * 37))\n"
                 "  add(f'd/{n:04d}.cls', str(n % 3).encode())\n"
                 "t.close()\n");
  REQUIRE(run_command("cd '" + folder.path().string() + "' && /usr/bin/python3 make.py").status ==
          0);
  return folder / (dialect + ".tar");
}

bool compress(const std::string& tool, const fs::path& file) {
  return run_command("command -v " + tool + " && " + tool + " -k '" + file.string() + "'").status ==
         0;
}

Error stream_failure(const fs::path& path) {
  try {
    streamed(path);
  } catch (const Error& error) {
    return error;
  }
  FAIL("no error for " << path);
  std::abort();
}

}  // namespace

TEST_CASE("A stream gives what reading by number gives", "[formats][tar][stream]") {
  TemporaryFolder folder;
  for (const char* dialect : {"USTAR", "GNU", "PAX"}) {
    const fs::path path = make_tar(folder, dialect, 40);
    OpenShard shard(tar(), path);
    const SampleList all = contents_in_order(shard.reader());
    REQUIRE(all.size() == 40);
    CHECK((streamed(path) == all));
    std::size_t kinds = 0;
    for (const auto& [tool, suffix] : std::map<std::string, std::string>{
             {"gzip", ".gz"}, {"zstd", ".zst"}, {"bzip2", ".bz2"}, {"xz", ".xz"}}) {
      if (!compress(tool, path)) continue;
      ++kinds;
      std::vector<std::string> warnings;
      CHECK((streamed(path.string() + suffix, &warnings) == all));
      CHECK(warnings.empty());
    }
    CHECK(kinds >= 1);
  }
}

TEST_CASE("gzip files of several members and with padding are read whole",
          "[formats][tar][stream]") {
  TemporaryFolder folder;
  const fs::path path = make_tar(folder, "USTAR", 10);
  const std::string bytes = read_text(path);
  write_text(folder / "a", bytes.substr(0, 5000));
  write_text(folder / "b", bytes.substr(5000));
  REQUIRE(compress("gzip", folder / "a"));
  REQUIRE(compress("gzip", folder / "b"));
  const std::string both = read_text(folder / "a.gz") + read_text(folder / "b.gz");
  write_text(folder / "both.tar.gz", both + std::string(700, '\0'));
  CHECK(streamed(folder / "both.tar.gz").size() == 10);
  write_text(folder / "odd.tar.gz", both + "junk");
  CHECK_THAT(stream_failure(folder / "odd.tar.gz").what(), Catch::Contains("damaged gzip data"));
}

TEST_CASE("Damage in compressed archives is an error wherever it is", "[formats][tar][stream]") {
  TemporaryFolder folder;
  const fs::path path = make_tar(folder, "USTAR", 4);
  const SampleList all = streamed(path);
  for (const auto& [tool, suffix] : std::map<std::string, std::string>{
           {"gzip", ".gz"}, {"zstd", ".zst"}, {"bzip2", ".bz2"}, {"xz", ".xz"}}) {
    if (!compress(tool, path)) continue;
    INFO(tool);
    const std::string good = read_text(path.string() + suffix);
    for (std::size_t part = 0; part < 64; ++part) {
      write_text(folder / "cut", good.substr(0, good.size() * part / 64));
      CHECK(stream_failure(folder / "cut").code() == ErrorCode::kDataLoss);
    }
    for (std::size_t at = 0; at < good.size(); at += 1 + good.size() / 200) {
      std::string bad = good;
      bad[at] ^= static_cast<char>(1 << at % 8);
      write_text(folder / "flip", bad);
      try {
        const SampleList read = streamed(folder / "flip");
        CHECK((read == all));  // a time or a name in the container's header
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kDataLoss);
      }
    }
  }
}

TEST_CASE("A plain stream that is cut is an error", "[formats][tar][stream]") {
  TemporaryFolder folder;
  const fs::path path = make_tar(folder, "GNU", 4);
  const std::string good = read_text(path);
  const std::size_t used = good.find_last_not_of('\0');
  const SampleList all = streamed(path);
  for (std::size_t part = 0; part < 64; ++part) {
    write_text(folder / "cut", good.substr(0, used * part / 64));
    try {
      std::vector<std::string> warnings;
      const SampleList read = streamed(folder / "cut", &warnings);
      // Cut between two members: all that can be known is that the end mark is missing.
      CHECK(read.size() <= all.size());
      REQUIRE(warnings.size() == 1);
      CHECK_THAT(warnings[0], Catch::Contains("no end mark"));
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kDataLoss);
      CHECK_FALSE(error.info().place.empty());
    }
  }
  write_text(folder / "text.gz", "no archive at all");
  REQUIRE(compress("gzip", folder / "text.gz"));
}

TEST_CASE("Compressed archives are refused by number, with what mends it",
          "[formats][tar][stream]") {
  TemporaryFolder folder;
  const fs::path path = make_tar(folder, "USTAR", 4);
  REQUIRE(compress("gzip", path));
  const std::string packed = path.string() + ".gz";
  CHECK_THROWS_WITH(OpenShard(fs::path(packed)), Catch::Contains("no storage format"));
  CHECK_FALSE(tar().recognises(packed));
  CHECK(compression_name(as_bytes(read_text(packed))) == "gzip");
  CHECK(compression_name(as_bytes(read_text(path))).empty());
}
