// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>
#include <shardmill/formats/dataset.h>
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/catch.h"
#include "tests/support/support.h"

namespace {

using namespace shardmill;
using shardmill::test::make_case;
using shardmill::test::read_text;
using shardmill::test::shared_path;
using shardmill::test::skip;
using shardmill::test::TemporaryFolder;
using shardmill::test::write_text;
namespace fs = std::filesystem;
using Fields = std::map<std::string, std::string>;
using Samples = std::vector<std::pair<std::string, Fields>>;

const Format& folder_format() { return find_format("folder"); }

struct Contents {
  ShardInfo info;
  Samples samples;

  std::string warnings() const {
    std::string all;
    for (const std::string& line : info.warnings) all += line + "\n";
    return all;
  }
  std::string keys() const {
    std::string all;
    for (const auto& [key, fields] : samples) all += (all.empty() ? "" : " ") + key;
    return all;
  }
};

Contents contents(const fs::path& path) {
  OpenShard shard(folder_format(), path);
  Contents all{shard.reader().info(), {}};
  SampleView view;
  for (std::uint64_t n = 0; n < shard.reader().size(); ++n) {
    shard.reader().will_need(n);
    shard.reader().read(n, view);
    Fields fields;
    for (const FieldView& field : view.fields)
      fields[std::string(field.name)] = as_text(field.bytes);
    CHECK(std::is_sorted(view.fields.begin(), view.fields.end(),
                         [](const auto& a, const auto& b) { return a.name < b.name; }));
    all.samples.emplace_back(view.key, std::move(fields));
  }
  return all;
}

Error failure(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error;
  }
  FAIL("no error");
  std::abort();
}

void make(const fs::path& root, std::initializer_list<const char*> names) {
  for (const char* name : names) write_text(root / name, name);
}

Sample sample(const std::string& key, const Fields& fields) {
  Sample made(key);
  for (const auto& [name, text] : fields) made.add(name, text);
  return made;
}

}  // namespace

TEST_CASE("FolderReader numbers class directories in the order of bytes", "[formats][folder]") {
  TemporaryFolder root;
  make(root.path(), {"b/1.jpg", "b/deep/er/2.png", "B/1.jpg", "\xc3\xa9/1.webp", "README.md"});
  fs::create_directory(root / "a");
  const Contents all = contents(root.path());
  CHECK(all.info.layout == "class-per-directory");
  CHECK(all.info.classes == std::vector<std::string>{"B", "a", "b", "\xc3\xa9"});
  CHECK(all.samples == Samples{{"B/1", {{"cls", "0"}, {"jpg", "B/1.jpg"}}},
                               {"b/1", {{"cls", "2"}, {"jpg", "b/1.jpg"}}},
                               {"b/deep/er/2", {{"cls", "2"}, {"png", "b/deep/er/2.png"}}},
                               {"\xc3\xa9/1", {{"cls", "3"}, {"webp", "\xc3\xa9/1.webp"}}}});
  CHECK_THAT(all.warnings(),
             Catch::Contains("class directory \"a\" holds no samples; it keeps its number 1"));
  CHECK_THAT(all.warnings(), Catch::Contains("1 files beside the class directories left out "
                                             "(first: \"README.md\")"));
}

TEST_CASE("FolderReader leaves out junk, special files and loops", "[formats][folder]") {
  TemporaryFolder root;
  make(root.path(),
       {"a/1.jpg", "a/2.jpg", "c/1.jpg", ".ipynb_checkpoints/1-checkpoint.jpg", ".DS_Store",
        "a/.1.jpg.swp", "a/Thumbs.db", "a/._1.jpg", "a/desktop.ini", "__MACOSX/a/1.jpg"});
  fs::create_symlink("..", root / "a/loop");
  fs::create_symlink("missing.jpg", root / "a/broken.jpg");
  fs::create_symlink("itself.jpg", root / "a/itself.jpg");
  fs::create_symlink("1.jpg", root / "a/linked.jpg");
  fs::create_directory_symlink("../c", root / "a/sub");
  REQUIRE(mkfifo((root / "c/x.jpg").c_str(), 0600) == 0);
  const Contents all = contents(root.path());
  CHECK(all.keys() == "a/1 a/2 a/linked a/sub/1 c/1");
  CHECK(all.info.classes == std::vector<std::string>{"a", "c"});
  CHECK_THAT(all.warnings(), Catch::Contains("7 hidden or system files and directories left out"));
  CHECK_THAT(all.warnings(), Catch::Contains("1 links to a directory above left out (first: "
                                             "\"a/loop\")"));
  CHECK_THAT(all.warnings(), Catch::Contains("2 broken links left out"));
  CHECK_THAT(all.warnings(), Catch::Contains("2 pipes, sockets or devices left out (first: "
                                             "\"a/sub/x.jpg\")"));
}

TEST_CASE("FolderReader groups raw names into samples", "[formats][folder]") {
  TemporaryFolder root;
  make(root.path(), {"a.jpg", "a.json", "a.seg.PNG", "b.JPEG", "c.v2.jpg", "c.v2.txt", "d.Jpe",
                     "d.cls", "noext", "dot.", "x.y.json"});
  const Contents all = contents(root.path());
  CHECK(all.info.layout == "flat");
  CHECK(all.info.classes.empty());
  CHECK(all.samples ==
        Samples{{"a", {{"jpg", "a.jpg"}, {"json", "a.json"}, {"seg.png", "a.seg.PNG"}}},
                {"b", {{"jpg", "b.JPEG"}}},
                {"c_v2", {{"jpg", "c.v2.jpg"}, {"txt", "c.v2.txt"}}},
                {"d", {{"cls", "d.cls"}, {"jpg", "d.Jpe"}}},
                {"x_y", {{"json", "x.y.json"}}}});
  CHECK_THAT(all.warnings(), Catch::Contains("3 extensions taken in lower case, jpeg as jpg"));
  CHECK_THAT(all.warnings(), Catch::Contains("2 files without an extension left out"));
  CHECK_THAT(all.warnings(), Catch::Contains("2 names with several dots"));
}

TEST_CASE("FolderReader makes a sample of each image that shares its name", "[formats][folder]") {
  TemporaryFolder root;
  make(root.path(), {"x.jpg", "x.png", "x.txt", "y.png"});
  const Contents all = contents(root.path());
  CHECK(all.samples == Samples{{"x_jpg", {{"jpg", "x.jpg"}, {"txt", "x.txt"}}},
                               {"x_png", {{"png", "x.png"}, {"txt", "x.txt"}}},
                               {"y", {{"png", "y.png"}}}});
  CHECK_THAT(all.warnings(), Catch::Contains("1 names shared by several images"));
}

TEST_CASE("FolderReader names both files that get one key", "[formats][folder]") {
  TemporaryFolder root;
  const auto both = [&](std::initializer_list<const char*> names, const std::string& words) {
    fs::remove_all(root.path());
    make(root.path(), names);
    const Error error = failure([&] { contents(root.path()); });
    CHECK(error.code() == ErrorCode::kInvalidArgument);
    CHECK_THAT(error.what(), Catch::Contains(words));
  };
  both({"c/a.jpg", "c/a.JPEG"}, "c/a.JPEG and c/a.jpg");
  both({"c/a.b.jpg", "c/a_b.jpg"}, "one key: c/a");
  both({"c/a.jpg", "c/a.png", "c/a_png.jpg"}, "sample \"c/a_png\"");
}

TEST_CASE("FolderReader keeps images only where there are images", "[formats][folder]") {
  TemporaryFolder root;
  make(root.path(), {"a/1.jpg", "a/1.txt", "a/notes.txt", "b/labels.csv"});
  const Contents images = contents(root.path());
  CHECK(images.keys() == "a/1");
  CHECK_THAT(images.warnings(), Catch::Contains("2 names without an image among images left out"));
  CHECK_THAT(images.warnings(), Catch::Contains("class directory \"b\" holds no samples"));
  fs::remove(root / "a/1.jpg");
  CHECK(contents(root.path()).keys() == "a/1 a/notes b/labels");
}

TEST_CASE("FolderReader takes a label from a file before the directory", "[formats][folder]") {
  TemporaryFolder root;
  make(root.path(), {"a/1.jpg", "b/1.jpg"});
  write_text(root / "b/1.cls", "7");
  const Contents all = contents(root.path());
  CHECK(all.samples[0].second.at("cls") == "0");
  CHECK(all.samples[1].second.at("cls") == "7");
}

TEST_CASE("FolderReader keeps an empty file and a name of any bytes", "[formats][folder]") {
  TemporaryFolder root;
  write_text(root / "c/caf\xe9.jpg", "x");
  write_text(root / "c/zero.jpg", "");
  const Contents all = contents(root.path());
  CHECK(all.samples == Samples{{"c/caf\xe9", {{"cls", "0"}, {"jpg", "x"}}},
                               {"c/zero", {{"cls", "0"}, {"jpg", ""}}}});
}

TEST_CASE("A folder's index does not depend on the order of making or on the locale",
          "[formats][folder]") {
  TemporaryFolder root;
  const std::vector<std::string> names = {"a10", "a2", "A1", "\xc3\xa9", "b", "I", "i", ".h", "t"};
  std::vector<std::vector<std::byte>> indices;
  for (const bool backwards : {false, true}) {
    const fs::path folder = root / (backwards ? "two" : "one");
    auto order = names;
    if (backwards) std::reverse(order.begin(), order.end());
    for (const std::string& name : order) {
      write_text(folder / ("c" + name) / (name + ".jpg"), "x");
      write_text(folder / "same" / (name + ".jpg"), "x");
      write_text(folder / "same" / ("." + name), "x");
    }
    for (const char* locale : {"C", "C.UTF-8", "tr_TR.UTF-8"}) {
      std::setlocale(LC_ALL, locale);  // keeps the old one where this is not installed
      indices.push_back(folder_format().build_index(folder, Access::kAuto));
    }
  }
  std::setlocale(LC_ALL, "C");
  for (const auto& index : indices) CHECK(index == indices[0]);
  CHECK(contents(root / "one").keys() ==
        "cA1/A1 cI/I ca10/a10 ca2/a2 cb/b ci/i ct/t c\xc3\xa9/\xc3\xa9 same/A1 same/I same/a10 "
        "same/a2 same/b same/i same/t same/\xc3\xa9");
}

TEST_CASE("A folder that was written reads back as it was", "[formats][folder]") {
  TemporaryFolder root;
  const fs::path path = root / "out";
  const ArrayType type{DType::kUInt8, {3}};
  Sample array("n/array");
  array.add("npy", as_bytes(std::string_view("abc")), &type);
  fs::create_directory(path);
  write_text(path / "unrelated.log", "made before");
  const auto writer = folder_format().create(path, {});
  writer->write(sample("n/b", {{"cls", "3"}, {"seg.png", "mask"}}).view());
  writer->write(array.view());
  writer->write(sample("a", {{"txt", ""}}).view());
  CHECK_FALSE(fs::exists(path / "n"));
  writer->close();
  write_text(path / "manifest.json", "{}");
  write_text(path / "shard-000000.sum", "sums");
  CHECK(read_text(path / "n/b.seg.png") == "mask");
  CHECK(read_text(path / "n/array.npy") == npy_header(type) + "abc");
  CHECK_FALSE(fs::exists(path / ".shardmill-partial"));
  const Contents all = contents(path);
  CHECK(all.info.layout == "shardmill");
  CHECK(all.samples == Samples{{"a", {{"txt", ""}}},
                               {"n/array", {{"npy", npy_header(type) + "abc"}}},
                               {"n/b", {{"cls", "3"}, {"seg.png", "mask"}}},
                               {"unrelated", {{"log", "made before"}}}});
  // Known by its manifest as well, where a copy lost the hidden mark.
  fs::remove(path / ".shardmill-folder");
  CHECK(contents(path).info.layout == "class-per-directory");
  write_text(path / "manifest.json", R"({"format": "folder", "shardlist": []})");
  CHECK(contents(path).samples == all.samples);
}

TEST_CASE("FolderWriter replaces nothing", "[formats][folder]") {
  TemporaryFolder root;
  const fs::path path = root / "out";
  make(path, {"a.txt", "d/x.txt"});
  {
    const auto writer = folder_format().create(path, {});
    CHECK_THROWS_WITH(writer->write(sample("a", {{"txt", "new"}}).view()),
                      Catch::Contains("exists already"));
    CHECK_THROWS_AS(writer->write(sample("d/y", {{"txt", "new"}}).view()), Error);
    writer->write(sample("b", {{"txt", "new"}}).view());
    writer->close();
  }
  CHECK(read_text(path / "a.txt") == "a.txt");
  CHECK_FALSE(fs::exists(path / "d/y.txt"));
  CHECK_THROWS_WITH(folder_format().create(path, {}),
                    Catch::Contains("holds a folder dataset already"));
}

TEST_CASE("FolderWriter refuses what files cannot carry", "[formats][folder]") {
  using Code = ErrorCode;
  TemporaryFolder root;
  const auto refusal = [&](const std::string& key, const Fields& fields) {
    const auto writer = folder_format().create(root / "out", {});
    const Error error = failure([&] { writer->write(sample(key, fields).view()); });
    return error.code();
  };
  CHECK(refusal("../a", {{"txt", ""}}) == Code::kInvalidArgument);
  CHECK(refusal("/a", {{"txt", ""}}) == Code::kInvalidArgument);
  CHECK(refusal("./a", {{"txt", ""}}) == Code::kInvalidArgument);
  CHECK(refusal(std::string("a\0b", 3), {{"txt", ""}}) == Code::kInvalidArgument);
  CHECK(refusal(".d/a", {{"txt", ""}}) == Code::kUnsupported);
  CHECK(refusal("a.b", {{"txt", ""}}) == Code::kUnsupported);
  CHECK(refusal("d/Thumbs", {{"db", ""}}) == Code::kUnsupported);
  CHECK(refusal("manifest", {{"json", ""}}) == Code::kUnsupported);
  CHECK(refusal("shard-000000", {{"sum", ""}}) == Code::kUnsupported);
  CHECK(refusal(std::string(255, 'k'), {{"txt", ""}}) == Code::kUnsupported);
  CHECK(refusal("a", {{"t/x", ""}}) == Code::kUnsupported);
  CHECK(refusal("a", {{"Txt", ""}}) == Code::kUnsupported);
  std::string deep = "d";
  while (deep.size() < 5000) deep += "/" + std::string(200, 'd');
  CHECK(refusal(deep, {{"txt", ""}}) == Code::kUnsupported);
  CHECK_FALSE(fs::exists(root / "out"));
  CHECK_FALSE(fs::exists(root / "a.txt"));
}

TEST_CASE("FolderWriter leaves no part of a sample behind", "[formats][folder]") {
  TemporaryFolder root;
  const auto writer = folder_format().create(root / "out", {});
  writer->write(sample("d.txt/x", {{"txt", "1"}}).view());
  CHECK_THROWS_WITH(writer->write(sample("d", {{"cls", "1"}, {"txt", "2"}}).view()),
                    Catch::Contains("another sample has a file or directory of this name"));
  CHECK_THROWS_WITH(writer->write(sample("d.txt/x", {{"cls", "1"}}).view()),
                    Catch::Contains("duplicate key"));
  writer->close();
  CHECK(contents(root / "out").keys() == "d.txt/x");
}

TEST_CASE("A folder whose writer died while moving is refused", "[formats][folder]") {
  TemporaryFolder root;
  make(root.path(), {"a.txt", ".shardmill-partial/b.txt"});
  const Error error = failure([&] { contents(root.path()); });
  CHECK(error.code() == ErrorCode::kDataLoss);
  CHECK_THAT(error.what(), Catch::Contains("a writer did not finish here"));
}

TEST_CASE("FolderReader reports what it cannot read", "[formats][folder]") {
  TemporaryFolder root;
  const Error missing = failure([&] { contents(root / "missing"); });
  CHECK(missing.code() == ErrorCode::kNotFound);
  write_text(root / "file", "");
  CHECK(failure([&] { contents(root / "file"); }).code() == ErrorCode::kInvalidArgument);
  make(root / "f", {"a/1.jpg", "a/2.jpg"});
  OpenShard shard(folder_format(), root / "f");
  SampleView view;
  fs::remove(root / "f/a/1.jpg");
  const Error gone = failure([&] { shard.reader().read(0, view); });
  CHECK(gone.code() == ErrorCode::kNotFound);
  CHECK_THAT(gone.what(), Catch::Contains("f/a/1.jpg: sample \"a/1\" field \"jpg\": cannot open"));
  shard.reader().read(1, view);
  CHECK(view.key == "a/2");
  REQUIRE(mkfifo((root / "f/a/1.jpg").c_str(), 0600) == 0);
  CHECK(failure([&] { shard.reader().read(0, view); }).code() == ErrorCode::kIo);
  fs::create_directory(root / "empty");
  CHECK(contents(root / "empty").samples.empty());
  if (geteuid() != 0) {
    REQUIRE(chmod((root / "f/a/2.jpg").c_str(), 0) == 0);
    CHECK(failure([&] { shard.reader().read(1, view); }).code() == ErrorCode::kIo);
  }
}

TEST_CASE("FolderReader peeks at the same samples as it reads", "[formats][folder]") {
  TemporaryFolder root;
  const std::string large(100'000, 'l');
  for (const auto& [name, text] : std::map<std::string, std::string>{
           {"a/1.jpg", large}, {"a/1.txt", "small"}, {"a/2.jpg", ""}, {"b/3.jpg", "x" + large}}) {
    write_text(root / name, text);
  }
  OpenShard peeked(folder_format(), root.path());
  OpenShard read(folder_format(), root.path());
  REQUIRE(peeked.reader().size() == 3);
  for (std::uint64_t n = 0; n < 3; ++n) {
    SampleView a;
    SampleView b;
    peeked.reader().peek(n, a);
    read.reader().read(n, b);
    CHECK(a.key == b.key);
    REQUIRE(a.fields.size() == b.fields.size());
    for (std::size_t i = 0; i < a.fields.size(); ++i) {
      CHECK(a.fields[i].name == b.fields[i].name);
      CHECK((as_text(a.fields[i].bytes) == as_text(b.fields[i].bytes)));
    }
  }
  fs::remove(root / "b/3.jpg");
  SampleView lost;
  CHECK_THROWS_AS(peeked.reader().peek(2, lost), Error);
}

TEST_CASE("FolderReader refuses a damaged index", "[formats][folder]") {
  TemporaryFolder root;
  make(root.path(), {"a/1.jpg", "a/1.x.json", "b/1.c.png"});
  const auto good = folder_format().build_index(root.path(), Access::kAuto);
  std::size_t refused = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    auto index = good;
    index[at] ^= std::byte{0x81};
    try {
      const auto reader = folder_format().open(root.path(), index, Access::kAuto);
      SampleView view;
      for (std::uint64_t n = 0; n < std::min<std::uint64_t>(reader->size(), 4); ++n) {
        reader->read(n, view);
      }
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(refused > good.size() / 4);
}

TEST_CASE("A worker keeps no string for each file of a folder", "[formats][folder]") {
  TemporaryFolder folder;
  constexpr std::uint64_t kFiles = 20'000;
  for (std::uint64_t i = 0; i < kFiles; ++i) {
    const std::string number = std::to_string(i);
    const fs::path path = folder / (std::string(i % 2 == 0 ? "cat" : "dog"));
    if (i < 2) fs::create_directory(path);
    std::ofstream(path / ("image_" + number + ".jpg")) << number;
  }
  const Dataset dataset = Dataset::open(folder.path().string());
  REQUIRE(dataset.size() == kFiles);
  CHECK(dataset.flat().size() < kFiles * 100);
  // What a worker does: attach the shared bytes and read.
  const std::size_t before = mallinfo2().uordblks;
  DatasetReader reader(Dataset::attach(dataset.flat()));
  SampleView sample;
  for (std::uint64_t n = 0; n < kFiles; n += 997) reader.read(n, sample);
  CHECK(mallinfo2().uordblks - before < 64 << 10);
}

TEST_CASE("describe tells layout and classes of a folder", "[formats][folder]") {
  TemporaryFolder root;
  make(root.path(), {"a/1.jpg", "b/1.jpg", "b/2.jpg"});
  const auto json = nlohmann::json::parse(folder_format().describe(root.path(), false));
  CHECK(json["format"] == "folder");
  CHECK(json["layout"] == "class-per-directory");
  CHECK(json["samples"] == 3);
  CHECK(json["classes"] == std::vector<std::string>{"a", "b"});
  CHECK(folder_format().recognises(root.path()));
  CHECK_FALSE(folder_format().recognises(root / "a/1.jpg"));
  write_text(root / "data.mdb", "");
  CHECK_FALSE(folder_format().recognises(root.path()));
}

TEST_CASE("Faults that people met with folders are right", "[formats][folder][cases]") {
  if (shared_path("cases").empty()) return skip("the collection of faults is absent");
  TemporaryFolder folder;
  for (const char* id : {"22", "23", "34", "37", "44", "74"}) {
    REQUIRE(make_case(id, folder.path()));
  }
  CHECK(contents(folder / "22/folder").samples[1].second.at("jpg").empty());
  const Contents scan = contents(folder / "23/f");
  CHECK(scan.keys() == "a/1 a/2 c/1");
  CHECK(scan.info.classes == std::vector<std::string>{"a", "b", "c"});
  CHECK_THAT(scan.warnings(), Catch::Contains("class directory \"b\""));
  const Contents same_names = contents(folder / "34/f");
  CHECK(same_names.keys() == "A/x B/x C/x");
  CHECK(same_names.samples[2].second.at("cls") == "2");
  CHECK(contents(folder / "37/folder").keys() == "c/a");
  CHECK(contents(folder / "44/f").keys() == "c/1 c/2 c/3");
  CHECK(contents(folder / "44/f").samples[1].second.count("jpg") == 1);
  CHECK(contents(folder / "74/f").keys() == "c/caf\xe9");
}
