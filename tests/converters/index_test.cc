// SPDX-License-Identifier: Apache-2.0
// Adopting data that stay where they are: index files, joined sets, labels.
#include <fcntl.h>
#include <shardmill/converters/convert.h>
#include <shardmill/converters/index.h>
#include <shardmill/converters/verify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "tests/converters/data.h"
#include "tests/support/catch.h"

using namespace shardmill;
using namespace shardmill::test;
namespace fs = std::filesystem;

namespace {

using Fields = std::map<std::string, std::string>;
using Content = std::vector<std::pair<std::string, Fields>>;

std::string array_text(const FieldView& field) {
  std::string text(dtype_name(field.array->dtype));
  for (const std::uint64_t extent : field.array->shape) text += " " + std::to_string(extent);
  return text + ":" + std::string(as_text(field.bytes));
}

Content content(const Dataset& dataset) {
  DatasetReader reader(dataset);
  Content all;
  SampleView sample;
  for (std::uint64_t n = 0; n < reader.size(); ++n) {
    reader.will_need(n);
    reader.read(n, sample);
    Fields& fields = all.emplace_back(std::string(sample.key), Fields()).second;
    for (const FieldView& field : sample.fields) {
      fields[std::string(field.name)] =
          field.array ? array_text(field) : std::string(as_text(field.bytes));
    }
  }
  return all;
}

Content content(const fs::path& spec) { return content(Dataset::open(spec.string())); }

void write_shard(const std::string& format, const fs::path& path,
                 const std::vector<Sample>& samples, const std::vector<FieldSpec>& fields = {}) {
  fs::create_directories(path.parent_path());
  const auto writer = find_format(format).create(path, {fields, samples.size()});
  for (const Sample& sample : samples) writer->write(sample.view());
  writer->close();
}

void write_shard(const std::string& format, const fs::path& path, const Content& rows) {
  std::vector<Sample> samples;
  for (const auto& [key, fields] : rows) {
    Sample& sample = samples.emplace_back(key);
    for (const auto& [name, value] : fields) sample.add(name, value);
  }
  write_shard(format, path, samples);
}

std::pair<std::string, Fields> make(const std::string& key, const Fields& fields) {
  return {key, fields};
}

// Two tars of two samples with captions and JSON, as image collections have them.
void make_tars(const fs::path& folder) {
  for (int shard = 0; shard < 2; ++shard) {
    Content samples;
    for (int i = 0; i < 2; ++i) {
      const std::string key = std::to_string(shard) + std::to_string(i);
      samples.push_back(
          make(key, {{"jpg", "image " + key},
                     {"json", "{\"a\": {\"b\": [" + std::to_string(i + 5) + "]}, \"label\": \"" +
                                  (i == 0 ? "cat" : "dog") + "\"}"}}));
    }
    write_shard("tar", folder / ("0" + std::to_string(shard) + ".tar"), samples);
  }
}

IndexReport make_index(IndexOptions options) { return index(options); }

std::string message(const IndexOptions& options) {
  try {
    index(options);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "no error";
}

std::string warnings(const Dataset& dataset) {
  std::string all;
  for (const std::string& line : dataset.info().warnings) all += line + "\n";
  return all;
}

}  // namespace

TEST_CASE("An index of shards reads as the shards do", "[index]") {
  TemporaryFolder folder;
  make_tars(folder / "data");
  fs::create_directories(folder / "idx");
  const auto report =
      make_index({.sources = {(folder / "data").string()}, .output = folder / "idx/d.json"});
  CHECK(report.manifest.rules.empty());
  CHECK(report.manifest.shards[1].url == "../data/01.tar");
  CHECK(report.files.size() == 2);
  CHECK(content(folder / "idx/d.json") == content(folder / "data"));
  CHECK(verify((folder / "idx/d.json").string(), {}).samples == 4);
  CHECK(tree(folder / "data").size() == 2);  // nothing was written beside the data
  // Workers attach flat bytes, which only name the index.
  const Dataset dataset = Dataset::open((folder / "idx/d.json").string());
  CHECK(content(Dataset::attach(dataset.flat())) == content(folder / "data"));
  CHECK(dataset.flat().size() < 4000);
  CHECK(warnings(dataset).empty());
}

TEST_CASE("Labels are taken from places in JSON", "[index]") {
  TemporaryFolder folder;
  make_tars(folder / "data");
  const std::string data = (folder / "data").string();
  const auto names =
      make_index({.sources = {data}, .output = folder / "n.json", .class_from = "json/label"});
  CHECK(names.manifest.classes == std::vector<std::string>{"cat", "dog"});
  const Content by_name = content(folder / "n.json");
  CHECK(by_name[0].second.at("cls") == "0");
  CHECK(by_name[3].second.at("cls") == "1");
  CHECK(by_name[3].second.at("jpg") == "image 11");
  make_index({.sources = {data},
              .output = folder / "b.json",
              .fields = {"jpg"},
              .class_from = "json/a/b/0"});
  CHECK(content(folder / "b.json")[1] ==
        std::pair<std::string, Fields>{"01", {{"cls", "6"}, {"jpg", "image 01"}}});
  CHECK_THAT(message({.sources = {data}, .output = folder / "x.json", .class_from = "json/a"}),
             Catch::Contains("gives no number or text for sample \"00\""));
  CHECK_THAT(message({.sources = {data}, .output = folder / "x.json", .class_from = "png"}),
             Catch::Contains("there is no field \"png\"; the fields are jpg, json"));
  CHECK_FALSE(fs::exists(folder / "x.json"));
  // Relabelled: the order of a file, on top of the index.
  write_text(folder / "order.txt", "dog\nbird\ncat\n");
  const auto again = make_index({.sources = {(folder / "n.json").string()},
                                 .output = folder / "r.json",
                                 .classes = (folder / "order.txt").string()});
  CHECK(again.manifest.classes == std::vector<std::string>{"dog", "bird", "cat"});
  CHECK(content(folder / "r.json")[0].second.at("cls") == "2");
  CHECK(content(folder / "r.json")[1].second.at("cls") == "0");
  write_text(folder / "less.txt", "dog\n");
  CHECK_THAT(message({.sources = {(folder / "n.json").string()},
                      .output = folder / "x.json",
                      .classes = (folder / "less.txt").string()}),
             Catch::Contains("does not name the class \"cat\" of the data"));
}

TEST_CASE("Sources can be the classes", "[index]") {
  TemporaryFolder folder;
  write_shard("tar", folder / "dog.tar",
              Content{make("d1", {{"jpg", "1"}}), make("d2", {{"jpg", "2"}})});
  write_shard("tar", folder / "cat.tar", Content{make("c1", {{"jpg", "3"}})});
  const auto report =
      make_index({.sources = {(folder / "dog.tar").string(), (folder / "cat.tar").string()},
                  .output = folder / "i.json",
                  .class_from = "source"});
  CHECK(report.manifest.classes == std::vector<std::string>{"cat", "dog"});
  CHECK(report.manifest.order == "class-sorted");
  const Content all = content(folder / "i.json");
  CHECK(all[1].second.at("cls") == "1");
  CHECK(all[2].second.at("cls") == "0");
  write_text(folder / "order.json", R"({"dog": 0, "cat": 1})");
  make_index({.sources = {(folder / "dog.tar").string(), (folder / "cat.tar").string()},
              .output = folder / "j.json",
              .classes = (folder / "order.json").string(),
              .class_from = "source"});
  CHECK(content(folder / "j.json")[0].second.at("cls") == "0");
}

TEST_CASE("A folder is relabelled by the classes of another dataset", "[index]") {
  TemporaryFolder folder;
  make_classes(folder / "photos", 3, 1);
  for (const char* name : {"c", "b", "a", "z"}) write_text(folder / "other" / name / "1.jpg", "x");
  fs::rename(folder / "other/z", folder / "other/0");
  make_index({.sources = {(folder / "photos").string()},
              .output = folder / "p.json",
              .classes = (folder / "other").string()});
  const Content all = content(folder / "p.json");
  CHECK(all[0].second.at("cls") == "1");
  CHECK(all[2].second.at("cls") == "3");
  CHECK(Dataset::open((folder / "p.json").string()).classes() ==
        std::vector<std::string>{"0", "a", "b", "c"});
}

TEST_CASE("Sets of equal length are joined, whatever their formats", "[index]") {
  TemporaryFolder folder;
  const ArrayType image{DType::kUInt8, {2, 2, 3}};
  const ArrayType label{DType::kUInt8, {1, 1, 1}};
  std::vector<Sample> x;
  std::vector<Sample> y;
  Content mask;
  for (int i = 0; i < 5; ++i) {
    const std::string key = std::to_string(i);
    const std::string pixels(12, static_cast<char>('a' + i));
    const std::string number(1, static_cast<char>(i % 2));
    x.emplace_back(key).add("x", as_bytes(pixels), &image);
    y.emplace_back(key).add("y", as_bytes(number), &label);
    mask.push_back(make(key, {{"seg.png", "mask " + key}}));
  }
  write_shard("hdf5", folder / "x.h5", x, {{"x", FieldKind::kArray, image}});
  write_shard("hdf5", folder / "y.h5", y, {{"y", FieldKind::kArray, label}});
  write_shard("tar", folder / "m0.tar", Content(mask.begin(), mask.begin() + 2));
  write_shard("tar", folder / "m1.tar", Content(mask.begin() + 2, mask.end()));
  const std::string masks = (folder / "m{0..1}.tar").string();
  const auto report = make_index({.sources = {(folder / "x.h5").string()},
                                  .output = folder / "all.json",
                                  .with = {(folder / "y.h5").string(), masks},
                                  .rename = {{"y", "cls"}, {"x", "image"}}});
  REQUIRE(report.manifest.fields.size() == 3);
  CHECK(report.manifest.fields[0].kind == FieldKind::kClass);
  CHECK(report.manifest.fields[1].array == image);
  const Content all = content(folder / "all.json");
  REQUIRE(all.size() == 5);
  CHECK(all[3].second ==
        Fields{{"cls", "1"}, {"image", "uint8 2 2 3:dddddddddddd"}, {"seg.png", "mask 3"}});
  const Dataset dataset = Dataset::open((folder / "all.json").string());
  CHECK(content(Dataset::attach(dataset.flat())) == all);
  // A conversion of the joined set holds the same.
  ConvertOptions convert_options{{(folder / "all.json").string()}, folder / "out", "lmdb"};
  convert_options.jobs = 1;
  const auto converted = convert(convert_options);
  const VerifyReport same =
      verify_equal((folder / "all.json").string(), (folder / "out").string(), {});
  CHECK(same.ok());
  CHECK(same.content_digest == converted.content_digest);
  // An index of an index, joined once more.
  make_index({.sources = {(folder / "y.h5").string()},
              .output = folder / "y.json",
              .rename = {{"y", "target"}}});
  make_index({.sources = {(folder / "all.json").string()},
              .output = folder / "more.json",
              .with = {(folder / "y.json").string()},
              .fields = {"target", "cls"}});
  CHECK(content(folder / "more.json")[1].second ==
        Fields{{"cls", "1"}, {"target", std::string("uint8 1 1 1:\x01", 13)}});
  CHECK_THAT(message({.sources = {(folder / "x.h5").string()},
                      .output = folder / "e.json",
                      .with = {(folder / "m0.tar").string()}}),
             Catch::Contains("m0.tar: holds 2 samples, ") && Catch::Contains("x.h5 5"));
  CHECK_THAT(message({.sources = {(folder / "y.h5").string()},
                      .output = folder / "e.json",
                      .with = {(folder / "y.h5").string()}}),
             Catch::Contains("y: two fields would have this name"));
  // A damaged part is found.
  std::string bytes = read_text(folder / "m1.tar");
  bytes[3] ^= 1;
  write_text(folder / "m1.tar", bytes);
  const VerifyReport damaged = verify((folder / "all.json").string(), {});
  CHECK_FALSE(damaged.ok());
  CHECK_THAT(damaged.damaged.at(0).shard, Catch::EndsWith("m1.tar"));
}

TEST_CASE("An index is used only for the files it was made of", "[index][cases]") {
  TemporaryFolder folder;
  const auto write_tar = [&](const std::string& a, const std::string& b) {
    write_shard("tar", folder / "a.tar",
                Content{make("k1", {{"txt", a}}), make("k2", {{"txt", b}})});
  };
  const std::string spec = (folder / "i.json").string();
  write_tar("first", "second");
  struct stat before {};
  REQUIRE(stat((folder / "a.tar").c_str(), &before) == 0);
  make_index({.sources = {(folder / "a.tar").string()}, .output = spec});
  make_index({.sources = {(folder / "a.tar").string()}, .beside = true});
  REQUIRE(fs::exists(folder / "a.tar.index"));
  CHECK(warnings(Dataset::open(spec)).empty());
  // Another time: not used, and said.
  write_tar("secon", "firsts");
  CHECK_THAT(warnings(Dataset::open(spec)), Catch::Contains("i.index is stale for a.tar") &&
                                                Catch::Contains("a.tar.index is stale"));
  CHECK(content(fs::path(spec))[0].second.at("txt") == "secon");
  // The same size and time, other members: an error, never wrong bytes.
  write_tar("firs", "secondx");
  const timespec times[2] = {before.st_atim, before.st_mtim};
  REQUIRE(utimensat(AT_FDCWD, (folder / "a.tar").c_str(), times, 0) == 0);
  CHECK_THROWS_WITH(content(fs::path(spec)), Catch::Contains("the index is stale"));
  CHECK_THROWS_WITH(content(folder / "a.tar"), Catch::Contains("the index is stale"));
  // Without an index the same file is fine.
  fs::remove(folder / "a.tar.index");
  CHECK(content(folder / "a.tar")[0].second.at("txt") == "firs");
}

TEST_CASE("Indices beside LMDB and HDF5 are dropped when these change", "[index][cases]") {
  for (const char* format : {"lmdb", "hdf5"}) {
    INFO(format);
    TemporaryFolder folder;
    const fs::path path = folder / ("data/s" + std::string(find_format(format).suffix()));
    const std::vector<FieldSpec> fields = {{"txt"}};
    std::vector<Sample> samples;
    samples.emplace_back("k1").add("txt", "one");
    write_shard(format, path, samples, fields);
    make_index({.sources = {path.string()}, .beside = true});
    REQUIRE(fs::exists(folder / ("data/" + path.filename().string() + ".index")));
    CHECK(warnings(Dataset::open(path.string())).empty());
    CHECK(content(path).size() == 1);
    CHECK(content(folder / "data") == content(path));  // the index is no shard
    samples.emplace_back("k2").add("txt", "two");
    fs::remove_all(path);
    write_shard(format, path, samples, fields);
    CHECK(content(path).size() == 2);
    CHECK_THAT(warnings(Dataset::open(path.string())), Catch::Contains("is stale for"));
  }
}

TEST_CASE("Nothing is written where the program is run", "[index][cases]") {
  TemporaryFolder folder;
  make_tars(folder / "data");
  fs::create_directories(folder / "here");
  const std::string program = SHARDMILL_BINARY_DIR "/bin/shardmill";
  const auto run = [&](const std::string& arguments) {
    return run_command("cd '" + (folder / "here").string() + "' && '" + program + "' " + arguments)
        .status;
  };
  CHECK(run("inspect ../data") == 0);
  CHECK(run("verify ../data") == 0);
  CHECK(run("index ../data --output ../i.json") == 0);
  CHECK(run("inspect ../i.json --list") == 0);
  CHECK(fs::is_empty(folder / "here"));
  CHECK(tree(folder / "data").size() == 2);
}

TEST_CASE("A damaged index file is never believed", "[index]") {
  TemporaryFolder folder;
  make_tars(folder / "data");
  const std::string spec = (folder / "d.json").string();
  make_index({.sources = {(folder / "data").string()}, .output = spec});
  const Content right = content(fs::path(spec));
  const std::string good = read_text(folder / "d.index");
  std::size_t errors = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] ^= static_cast<char>(1 << at % 8);
    write_text(folder / "d.index", bad);
    try {
      const Content read = content(fs::path(spec));
      CHECK(read == right);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kDataLoss);
      ++errors;
    }
  }
  CHECK(errors > 0);  // of an index that is first looked at when its shard is read
  for (std::size_t size = 0; size < good.size(); size += 61) {
    write_text(folder / "d.index", good.substr(0, size));
    CHECK(content(fs::path(spec)) == right);
  }
  fs::remove(folder / "d.index");
  const Dataset rebuilt = Dataset::open(spec);
  CHECK(content(rebuilt) == right);
  CHECK_THAT(warnings(rebuilt), Catch::Contains("the index is not used"));
}

TEST_CASE("A thousand shards open without a look at any", "[index]") {
  if (run_command("command -v strace").status != 0) return skip("strace is absent");
  TemporaryFolder folder;
  for (int i = 0; i < 1000; ++i) {
    char name[16];
    std::snprintf(name, sizeof name, "%04d", i);
    write_shard("tar", folder / "data" / (std::string(name) + ".tar"),
                Content{make(name, {{"txt", name}})});
  }
  const std::string index_file = (folder / "data/set.json").string();
  make_index({.sources = {(folder / "data").string()}, .output = index_file});
  REQUIRE(chmod((folder / "data").c_str(), 0555) == 0);
  const std::string trace = (folder / "trace").string();
  const auto result = run_command(
      "cd / && ASAN_OPTIONS=detect_leaks=0 strace -f -e trace=openat,open -o '" + trace + "' '" +
      SHARDMILL_BINARY_DIR "/bin/shardmill' inspect '" + index_file + "' --sample 777");
  chmod((folder / "data").c_str(), 0755);
  INFO(result.err);
  REQUIRE(result.status == 0);
  CHECK_THAT(result.out, Catch::Contains("sample 777: 0777"));
  const std::string calls = read_text(trace);
  std::size_t opened = 0;
  for (std::size_t at = 0; (at = calls.find(".tar\"", at)) != std::string::npos; ++at) ++opened;
  CHECK(opened >= 1);
  CHECK(opened <= 3);
}

TEST_CASE("Of several damaged shards the first is named, whatever is read first", "[index]") {
  TemporaryFolder folder;
  for (int i = 10; i < 60; ++i) {
    const std::string number = std::to_string(i);
    write_shard("tar", folder / ("data/" + number + ".tar"),
                Content{make(number, {{"txt", number}})});
  }
  const std::string data = (folder / "data").string();
  const Content all = content(fs::path(data));
  REQUIRE(all.size() == 50);
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i].first == std::to_string(i + 10));
  for (const char* name : {"31.tar", "55.tar"}) {
    std::string bytes = read_text(folder.path() / "data" / name);
    bytes[1024] = 'x';
    write_text(folder.path() / "data" / name, bytes);
  }
  for (int run = 0; run < 20; ++run) {
    CHECK_THROWS_WITH(Dataset::open(data), Catch::Contains("31.tar: offset 1024"));
  }
}

TEST_CASE("What is odd in many shards is said once", "[index]") {
  TemporaryFolder folder;
  for (int i = 10; i < 15; ++i) {
    const std::string number = std::to_string(i);
    const fs::path path = folder / ("data/" + number + ".tar");
    write_shard("tar", path, Content{make(number, {{"txt", number}})});
    fs::resize_file(path, 1024);  // without an end mark
  }
  const std::string said = warnings(Dataset::open((folder / "data").string()));
  CHECK_THAT(said, Catch::StartsWith("10.tar (and 4 more shards): the archive has no end mark"));
  CHECK(std::count(said.begin(), said.end(), '\n') == 1);
}

TEST_CASE("Indices for other programs", "[index]") {
  TemporaryFolder folder;
  write_shard("tar", folder / "data/s.tar",
              Content{make("a/1", {{"cls", "3"}, {"jpg", "xyz"}}), make("a/2", {{"jpg", ""}})});
  make_index({.sources = {(folder / "data/s.tar").string()},
              .output = folder / "i.json",
              .wids = true,
              .dali = true});
  CHECK(read_text(folder / "s.idx") ==
        "v1.2 2\ncls 512 1 a/1.cls jpg 1536 3 a/1.jpg\njpg 2560 0 a/2.jpg\n");
  const std::string wids = read_text(folder / "i.wids.json");
  CHECK_THAT(wids, Catch::Contains("\"__kind__\": \"wids-shard-index-v1\"") &&
                       Catch::Contains("\"url\": \"data/s.tar\"") &&
                       Catch::Contains("\"nsamples\": 2"));
  CHECK(content(folder / "i.wids.json") == content(folder / "data/s.tar"));
  make_index({.sources = {(folder / "data/s.tar").string()}, .beside = true, .dali = true});
  CHECK(read_text(folder / "data/s.idx") == read_text(folder / "s.idx"));
  write_shard("tar", folder / "blank.tar", Content{make("a b", {{"jpg", "1"}})});
  CHECK_THROWS_WITH(index({.sources = {(folder / "blank.tar").string()},
                           .output = folder / "b.json",
                           .dali = true}),
                    Catch::Contains("DALI's index cannot hold names with white space"));
  CHECK_FALSE(fs::exists(folder / "b.json"));
}

TEST_CASE("Token files are read in place", "[index]") {
  TemporaryFolder folder;
  std::vector<std::uint16_t> tokens(1000);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint16_t>(i);
  write_text(folder / "t.v1.bin", {reinterpret_cast<const char*>(tokens.data()), 2000});
  const auto report = make_index({.sources = {(folder / "t.v1.bin").string()},
                                  .output = folder / "t.json",
                                  .dtype = "uint16",
                                  .seq_len = 64});
  CHECK(report.manifest.samples() == 15);
  CHECK(report.manifest.fields[0].array == ArrayType{DType::kUInt16, {64}});
  REQUIRE(report.warnings.size() == 1);
  CHECK_THAT(report.warnings[0], Catch::Contains("40 tokens at the end fill no row of 64"));
  DatasetReader reader(Dataset::open((folder / "t.json").string()));
  SampleView sample;
  reader.read(14, sample);
  CHECK(sample.key == "t_v1/000000000014");
  std::uint16_t first = 0;
  std::memcpy(&first, sample.fields[0].bytes.data(), 2);
  CHECK(first == 14 * 64);
  CHECK(verify((folder / "t.json").string(), {}).ok());
  CHECK_THAT(message({.sources = {(folder / "t.v1.bin").string()},
                      .output = folder / "x.json",
                      .dtype = "float32",
                      .seq_len = 64}),
             Catch::Contains("--dtype: \"float32\" is no integer type"));
  CHECK_THAT(message({.sources = {(folder / "t.v1.bin").string()},
                      .output = folder / "x.json",
                      .dtype = "uint16"}),
             Catch::Contains("--seq-len: 0 is no length of a row"));
  fs::resize_file(folder / "t.v1.bin", 1900);
  CHECK_THROWS_WITH(Dataset::open((folder / "t.json").string()),
                    Catch::Contains("has 1900 bytes, its manifest says 2000"));
}

TEST_CASE("A label that appears later is an error that names the sample", "[index]") {
  TemporaryFolder folder;
  make_tars(folder / "data");
  make_index({.sources = {(folder / "data").string()},
              .output = folder / "n.json",
              .class_from = "json/label"});
  const Content other = {make("00", {{"jpg", "image 00"}, {"json", "{\"label\": \"cow\"}"}}),
                         make("01", {{"jpg", "image 01"}, {"json", "no json"}})};
  write_shard("tar", folder / "data/00.tar", other);
  DatasetReader reader(Dataset::open((folder / "n.json").string()));
  SampleView sample;
  CHECK_THROWS_WITH(reader.read(0, sample),
                    Catch::Contains("00.tar: sample \"00\" field \"json\": \"cow\" is none of the "
                                    "classes"));
  CHECK_THROWS_WITH(reader.read(1, sample), Catch::Contains("malformed JSON"));
  reader.read(2, sample);
  CHECK(as_text(sample.find("cls")->bytes) == "0");
}

TEST_CASE("Malformed rules in a manifest are refused", "[index][manifest]") {
  const auto refused = [](const std::string& text, const std::string& words) {
    CHECK_THROWS_WITH(parse_manifest(text, "m.json"), Catch::Contains(words));
  };
  const std::string shards = R"("shardlist":[{"url":"a.tar","nsamples":2}])";
  refused("{" + shards + R"(,"view":[{"name":"a","part":1,"from":"a"}]})", "not there");
  refused("{" + shards + R"(,"view":[{"name":"a","part":0,"from":"a","value":"odd"}]})",
          "unknown value");
  refused("{" + shards + R"(,"view":[{"name":"cls","part":0,"value":"shard","numbers":[]}]})",
          "class numbers of other shards");
  refused("{" + shards +
              R"(,"with":[{"format":"tar","shardlist":[{"url":"b.tar","nsamples":3}]}],)" +
              R"("view":[{"name":"a","part":1,"from":"a"}]})",
          "differ in length");
  refused("{" + shards +
              R"(,"view":[{"name":"b","part":0,"from":"a"},{"name":"a","part":0,"from":"a"}]})",
          "not sorted");
  refused(R"({"layout_version": 3, )" + shards + "}", "newer than this program");
}
