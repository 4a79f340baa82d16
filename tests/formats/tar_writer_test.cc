// SPDX-License-Identifier: Apache-2.0
#include "tests/formats/tar_support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

void write(const fs::path& path, const std::vector<Sample>& samples) {
  const auto writer = tar().create(path, {});
  for (const Sample& sample : samples) writer->write(sample.view());
  writer->close();
}

template <class... Samples>
void write(const fs::path& path, const Sample& first, const Samples&... more) {
  const auto writer = tar().create(path, {});
  writer->write(first.view());
  (writer->write(more.view()), ...);
  writer->close();
}

ErrorCode refusal(const Sample& sample) {
  TemporaryFolder folder;
  const auto writer = tar().create(folder / "a.tar", {});
  try {
    writer->write(sample.view());
  } catch (const Error& error) {
    return error.code();
  }
  FAIL("not refused: " << sample.key());
  std::abort();
}

Sample sample(const std::string& key,
              std::initializer_list<std::pair<const char*, std::string>> fields) {
  Sample made(key);
  for (const auto& [name, text] : fields) made.add(name, text);
  return made;
}

}  // namespace

TEST_CASE("TarWriter refuses what tar cannot carry", "[formats][tar]") {
  using Code = ErrorCode;
  CHECK(refusal(sample("", {{"txt", ""}})) == Code::kInvalidArgument);
  CHECK(refusal(sample("../a", {{"txt", ""}})) == Code::kInvalidArgument);
  CHECK(refusal(sample("/a", {{"txt", ""}})) == Code::kInvalidArgument);
  CHECK(refusal(sample("a//b", {{"txt", ""}})) == Code::kInvalidArgument);
  CHECK(refusal(sample(std::string("a\0b", 3), {{"txt", ""}})) == Code::kInvalidArgument);
  CHECK(refusal(sample("a.b", {{"txt", ""}})) == Code::kUnsupported);
  CHECK(refusal(sample("d/.b", {{"txt", ""}})) == Code::kUnsupported);
  CHECK(refusal(sample("__x__/b", {{"txt", ""}})) == Code::kUnsupported);
  CHECK(refusal(sample("d/__MACOSX/b", {{"txt", ""}})) == Code::kUnsupported);
  CHECK(refusal(sample("__x", {{"a__", ""}})) == Code::kUnsupported);
  CHECK(refusal(sample("a", {{"", ""}})) == Code::kInvalidArgument);
  CHECK(refusal(sample("a", {{"t/x", ""}})) == Code::kUnsupported);
  CHECK(refusal(sample("a", {{"TXT", ""}})) == Code::kUnsupported);
  CHECK(refusal(Sample("a")) == Code::kUnsupported);
}

TEST_CASE("TarWriter goes on after a refused sample", "[formats][tar]") {
  TemporaryFolder folder;
  const fs::path path = folder / "a.tar";
  const auto writer = tar().create(path, {});
  writer->write(sample("a", {{"txt", "1"}}).view());
  CHECK_THROWS_AS(writer->write(sample("a", {{"cls", "1"}}).view()), Error);
  CHECK_THROWS_AS(writer->write(sample("b", {{"cls", "1"}, {"TXT", "2"}}).view()), Error);
  writer->write(sample("b", {{"txt", "2"}}).view());
  writer->close();
  const auto all = contents(path);
  CHECK(all.size() == 2);
  CHECK(all.at("a") == std::map<std::string, std::string>{{"txt", "1"}});
  CHECK(all.at("b") == std::map<std::string, std::string>{{"txt", "2"}});
}

TEST_CASE("GNU tar and Python list names of all lengths as written", "[formats][tar]") {
  TemporaryFolder folder;
  const fs::path path = folder / "a.tar";
  std::vector<Sample> samples;
  std::string expected;
  std::string deep = "d";
  while (deep.size() < 1100) deep += "/" + std::string(50, 'y');
  for (const std::size_t length : {5u, 99u, 100u, 101u, 155u, 200u, 255u, 256u, 257u, 1000u}) {
    std::string key = deep.substr(0, length - 6) + "zz";
    samples.push_back(sample(key, {{"txt", std::to_string(length)}}));
    expected += key + ".txt\n";
  }
  for (const std::string& key :
       {std::string(180, 'k'), std::string("with space/é ü"), std::string("latin\xe9")}) {
    samples.push_back(sample(key, {{"txt", ""}}));
    expected += key + ".txt\n";
  }
  write(path, samples);
  const std::string quoted = "'" + path.string() + "'";
  const auto gnu = run_command("tar --quoting-style=literal -tf " + quoted);
  CHECK(gnu.status == 0);
  CHECK(gnu.err.empty());
  CHECK(gnu.out == expected);
  const auto python = run_command(
      "/usr/bin/python3 -c \"import os, sys, tarfile\n"
      "for m in tarfile.open(sys.argv[1]): sys.stdout.buffer.write(os.fsencode(m.name) + b'\\n')\n"
      "\" " +
      quoted);
  CHECK(python.err.empty());
  CHECK(python.out == expected);
  const auto all = contents(path);
  CHECK(all.size() == samples.size());
  for (const Sample& one : samples) CHECK(all.count(one.key()) == 1);
}

TEST_CASE("TarWriter writes the bytes that Python's tarfile writes", "[formats][tar]") {
  TemporaryFolder folder;
  const fs::path path = folder / "a.tar";
  const std::string directory = std::string(70, 'd') + "/" + std::string(60, 'e') + "/";
  write(path, sample("b", {{"txt", std::string(1500, 'x')}, {"cls", "3"}}),
        sample("a", {{"jpg", ""}}), sample(directory + "c", {{"bin", std::string(512, '\1')}}));
  const auto made = run_command(
      "/usr/bin/python3 -c \"\n"
      "import io, sys, tarfile\n"
      "d = 'd' * 70 + '/' + 'e' * 60 + '/'\n"
      "with tarfile.open(sys.argv[1], 'w', format=tarfile.USTAR_FORMAT) as t:\n"
      "  for n, b in [('b.cls', b'3'), ('b.txt', b'x' * 1500), ('a.jpg', b''), (d + 'c.bin', "
      "b'\\1' * 512)]:\n"
      "    i = tarfile.TarInfo(n); i.size = len(b); t.addfile(i, io.BytesIO(b))\n"
      "\" '" +
      (folder / "python.tar").string() + "'");
  REQUIRE(made.status == 0);
  CHECK(read_text(path) == read_text(folder / "python.tar"));
}

TEST_CASE("TarWriter stores arrays as npy files", "[formats][tar]") {
  TemporaryFolder folder;
  const fs::path path = folder / "a.tar";
  const ArrayType type{DType::kUInt16, {2, 3}};
  Sample one("a");
  one.add("image", as_bytes(std::string_view("0123456789ab")), &type);
  one.add("npy", as_bytes(std::string_view("0123456789ab")), &type);
  write(path, one);
  const auto all = contents(path);
  const std::string bytes = npy_header(type) + "0123456789ab";
  CHECK(all.at("a") == std::map<std::string, std::string>{{"image.npy", bytes}, {"npy", bytes}});
}

TEST_CASE("The Python reader in the documentation reads what is written", "[formats][docs]") {
  const auto run = [](const char* format, const char* shard) {
    TemporaryFolder folder;
    const auto writer = find_format(format).create(folder / shard, {});
    writer->write(sample("cat/1", {{"cls", "0"}, {"seg.png", "mask"}}).view());
    writer->write(sample("b", {{"txt", "text"}}).view());
    writer->close();
    write_text(folder / "out/manifest.json", "{}");
    const std::string page =
        read_text(fs::path(SHARDMILL_SOURCE_DIR) / "docs/formats" / (std::string(format) + ".md"));
    const std::string open = "```python\n";
    const std::size_t begin = page.find(open) + open.size();
    const std::string code = page.substr(begin, page.find("```", begin) - begin);
    write_text(folder / "read.py", code + "print(sorted(samples.items()))\n");
    const auto result =
        run_command("cd '" + folder.path().string() + "' && /usr/bin/python3 read.py");
    CHECK(result.err.empty());
    CHECK(result.out ==
          "[('b', {'txt': b'text'}), ('cat/1', {'cls': b'0', 'seg.png': b'mask'})]\n");
  };
  run("tar", "shard-000000.tar");
  run("folder", "out");
}
