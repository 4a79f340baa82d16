// SPDX-License-Identifier: Apache-2.0
// Environments that other programs made.
#include <shardmill/formats/dataset.h>

#include "tests/formats/lmdb_support.h"

namespace shardmill {
namespace {

using namespace test;

const Format& format() { return find_format("lmdb"); }

const std::string kJpeg = "\xFF\xD8\xFF\xE0 a picture";
const std::string kPng = "\x89PNG\r\n\x1A\n a picture";

std::string numbered(const char* word, int number) {
  char text[32];
  std::snprintf(text, sizeof text, "%s-%09d", word, number);
  return text;
}

Entries pairs(int count, const std::string& stated) {
  Entries entries = {{"num-samples", stated}};
  for (int i = 1; i <= count; ++i) {
    entries.emplace_back(numbered("image", i), kJpeg + std::to_string(i));
    entries.emplace_back(numbered("label", i), "text " + std::to_string(i));
  }
  return entries;
}

ErrorInfo refusal(const fs::path& path) {
  return error_of([&] { OpenShard shard(format(), path); });
}

std::string layout_of(const fs::path& path) {
  return OpenShard(format(), path).reader().info().layout;
}

}  // namespace

TEST_CASE("lmdb values of Caffe are images, numbers and labels", "[formats][lmdb][cases]") {
  TemporaryFolder folder;
  if (!make_case("55", folder.path())) return skip("the collection of faults is absent");
  for (const Access access : {Access::kMap, Access::kRead}) {
    OpenShard shard(format(), folder / "55/caffe.lmdb", access);
    REQUIRE(shard.reader().size() == 3);
    CHECK(shard.reader().info().layout == "caffe");
    SampleView view;
    shard.reader().read(0, view);
    CHECK(view.key == "00000000_a");
    REQUIRE(view.find("npy") != nullptr);
    CHECK((*view.find("npy")->array == ArrayType{DType::kUInt8, {1, 1, 3}}));
    CHECK(as_text(view.find("npy")->bytes) == "\x1E\x14\x0A");
    CHECK(as_text(view.find("cls")->bytes) == "7");
    shard.reader().read(1, view);
    REQUIRE(view.find("jpg") != nullptr);
    CHECK(as_text(view.find("jpg")->bytes).starts_with("\xFF\xD8\xFF"));
    CHECK(as_text(view.find("cls")->bytes) == "9");
    shard.reader().read(2, view);
    REQUIRE(view.find("npy") != nullptr);
    CHECK((*view.find("npy")->array == ArrayType{DType::kFloat32, {1, 1, 2}}));
    float numbers[2];
    std::memcpy(numbers, view.find("npy")->bytes.data(), sizeof numbers);
    CHECK(numbers[0] == 0.5f);
    CHECK(numbers[1] == -2.0f);
    CHECK(as_text(view.find("cls")->bytes) == "5");
  }
}

TEST_CASE("lmdb names the key of a value that is no Datum", "[formats][lmdb]") {
  TemporaryFolder folder;
  const std::string good("\x08\x03\x10\x01\x18\x01\x22\x03\x0A\x14\x1E\x28\x07", 13);
  write_with_liblmdb(folder / "d",
                     {{"00000000_a/b.c.JPEG", good}, {"00000001_x", good.substr(0, 9)}});
  OpenShard shard(format(), folder / "d");
  SampleView view;
  shard.reader().read(0, view);
  CHECK(view.key == "00000000_a/b");
  const ErrorInfo error = error_of([&] { shard.reader().read(1, view); });
  CHECK(error.code == ErrorCode::kDataLoss);
  CHECK(error.place == "sample 1 key \"00000001_x\"");
  CHECK(error.cause == "value is no Caffe Datum");
}

TEST_CASE("lmdb reads Caffe's own environments", "[formats][lmdb]") {
  const fs::path zoo = shared_path("zoo/lmdb");
  if (zoo.empty()) return skip("the zoo of real files is absent");
  for (const auto& [name, size] :
       {std::pair{"caffe_minecraft", 84}, {"caffe_catcar/test_lmdb", 256}}) {
    const Entries entries = read_with_liblmdb(zoo / name / "data.mdb");
    OpenShard shard(format(), zoo / name);
    REQUIRE(shard.reader().size() == entries.size());
    SampleView view;
    for (std::uint64_t n = 0; n < entries.size(); ++n) {
      shard.reader().read(n, view);
      REQUIRE(view.fields.size() == 2);
      const auto edge = static_cast<std::uint64_t>(size);
      REQUIRE((*view.find("npy")->array == ArrayType{DType::kUInt8, {edge, edge, 3}}));
      const Bytes rgb = view.find("npy")->bytes;
      // The planes are somewhere near the front of the message, blue first.
      const std::string& message = entries[n].second;
      const std::size_t at = message.find('\x22') == 6 ? 10 : message.find('\x22') + 4;
      const std::size_t plane = edge * edge;
      for (std::size_t i = 0; i < plane; i += 97) {
        REQUIRE(static_cast<char>(rgb[3 * i]) == message[at + 2 * plane + i]);
        REQUIRE(static_cast<char>(rgb[3 * i + 2]) == message[at + i]);
      }
    }
  }
}

TEST_CASE("lmdb pairs of images and texts are samples", "[formats][lmdb][cases]") {
  TemporaryFolder folder;
  if (!make_case("56", folder.path())) return skip("the collection of faults is absent");
  for (const Access access : {Access::kMap, Access::kRead}) {
    OpenShard shard(format(), folder / "56/str_ok.lmdb", access);
    REQUIRE(shard.reader().size() == 3);
    CHECK(shard.reader().info().layout == "str");
    CHECK(shard.reader().info().warnings.empty());
    SampleView view;
    const char* texts[] = {"hello", "caf\xC3\xA9", "A B"};
    for (std::uint64_t n = 0; n < 3; ++n) {
      shard.reader().will_need(n);
      shard.reader().read(n, view);
      CHECK(view.key == numbered("image", static_cast<int>(n) + 1));
      REQUIRE(view.fields.size() == 2);
      CHECK(view.fields[0].name == "jpg");
      CHECK(as_text(view.find("txt")->bytes) == texts[n]);
    }
  }
  const ErrorInfo lies = refusal(folder / "56/str_lies.lmdb");
  CHECK(lies.code == ErrorCode::kDataLoss);
  CHECK(lies.place == "entry \"image-000000004\"");
}

TEST_CASE("lmdb says what is odd about pairs", "[formats][lmdb]") {
  TemporaryFolder folder;
  write_with_liblmdb(folder / "fewer", pairs(700, "600"));
  OpenShard fewer(format(), folder / "fewer");
  CHECK(fewer.reader().size() == 600);
  REQUIRE(fewer.reader().info().warnings.size() == 1);
  CHECK(fewer.reader().info().warnings[0].find("num-samples says 600") == 0);

  Entries holes = pairs(700, "700");
  std::erase_if(holes, [](const auto& entry) { return entry.first == numbered("label", 20); });
  holes.emplace_back("image-000000350x", "another");
  write_with_liblmdb(folder / "holes", holes);
  OpenShard shard(format(), folder / "holes");
  CHECK(shard.reader().info().warnings.size() == 2);
  SampleView view;
  for (const std::uint64_t n : {0u, 18u, 19u, 20u, 349u, 350u, 699u}) {
    shard.reader().read(n, view);
    const std::string number = std::to_string(n + 1);
    CHECK(as_text(view.find("jpg")->bytes) == kJpeg + number);
    CHECK(view.fields.size() == (n == 19 ? 1 : 2));
    if (n != 19) CHECK(as_text(view.find("txt")->bytes) == "text " + number);
  }
  Entries gap = pairs(10, "10");
  std::erase_if(gap, [](const auto& entry) { return entry.first == numbered("image", 4); });
  write_with_liblmdb(folder / "gap", gap);
  CHECK(refusal(folder / "gap").place == "entry \"image-000000004\"");
  CHECK(OpenShard(format(), (folder / "gap").string() + "#as=plain").reader().size() == 20);
  write_with_liblmdb(folder / "word", pairs(2, "two"));
  CHECK(refusal(folder / "word").cause == "not a number: \"two\"");
}

TEST_CASE("lmdb values that are images say so", "[formats][lmdb][cases]") {
  TemporaryFolder folder;
  const std::string webp = "RIFF....WEBP" + std::string(5, 'x');
  write_with_liblmdb(folder / "mixed", {{"a", kJpeg}, {"b", kPng}, {"c", webp}, {"d", ""}});
  const std::vector<std::string> all = dump_all(format(), folder / "mixed");
  CHECK(all[0].starts_with("a|jpg="));
  CHECK(all[1].starts_with("b|png="));
  CHECK(all[2].starts_with("c|webp="));
  CHECK(all[3] == "d|jpg=0:");  // an empty value is there, with the field of the others
  CHECK(layout_of(folder / "mixed") == "plain");
  write_with_liblmdb(folder / "cat_train_lmdb",
                     {{"0123456789abcdef0123456789abcdef01234567", webp}});
  CHECK(layout_of(folder / "cat_train_lmdb") == "lsun");
  if (!make_case("22", folder.path())) return skip("the collection of faults is absent");
  const std::vector<std::string> empty = dump_all(format(), folder / "22/z.lmdb");
  REQUIRE(empty.size() == 2);
  CHECK(empty[0].starts_with("k0|jpg="));
  CHECK(empty[1] == "k1|jpg=0:");
}

TEST_CASE("lmdb compares images with the meta_info.txt beside", "[formats][lmdb]") {
  TemporaryFolder folder;
  write_with_liblmdb(folder / "lq.lmdb", {{"baboon", kPng}, {"lenna", kPng}});
  const fs::path list = folder / "lq.lmdb/meta_info.txt";
  write_text(list, "baboon.png (120,125,3) 1\nlenna.png (128,128,3) 1\n");
  CHECK(layout_of(folder / "lq.lmdb") == "meta_info");
  write_text(list, "baboon.png (120,125,3) 1\nlenna.png (128,128,3) 1\nx.png (1,1,3) 1\n");
  CHECK(refusal(folder / "lq.lmdb").cause ==
        "meta_info.txt lists 3 images, the environment holds 2");
  write_text(list, "baboon.png (120,125,3) 1\n");
  CHECK(OpenShard(format(), folder / "lq.lmdb").reader().info().warnings.size() == 1);
  write_text(list, "something else");
  CHECK(layout_of(folder / "lq.lmdb") == "plain");
}

TEST_CASE("lmdb refuses pickled values", "[formats][lmdb]") {
  TemporaryFolder folder;
  write_with_liblmdb(folder / "d", {{"0", "\x80\x04K\x01."}, {"1", "\x80\x04K\x02."}});
  const ErrorInfo error = refusal(folder / "d");
  CHECK(error.code == ErrorCode::kUnsupported);
  CHECK(error.cause.find("pickled Python objects") != std::string::npos);
  CHECK(dump_all(format(), (folder / "d").string() + "#as=plain")[1] == "1|bin=5:\x80\x04K\x02.");
}

TEST_CASE("lmdb sub-databases are chosen with #", "[formats][lmdb]") {
  TemporaryFolder folder;
  Entries many;
  for (int i = 0; i < 900; ++i) many.emplace_back(std::to_string(10000 + i), "value");
  write_with_liblmdb(folder / "d", {{"a", "1"}, {"b", "2"}}, 0, 0, "train");
  write_with_liblmdb(folder / "d", many, 0, 0, "val");
  const std::string path = (folder / "d").string();
  const ErrorInfo both = refusal(path);
  CHECK(both.remedy == "choose one: " + path + "/data.mdb#train, " + path + "/data.mdb#val");
  for (const Access access : {Access::kMap, Access::kRead}) {
    CHECK((dump_all(format(), path + "#train", access) ==
           std::vector<std::string>{"a|bin=1:1", "b|bin=1:2"}));
    CHECK(dump_all(format(), path + "/data.mdb#val", access).size() == 900);
  }
  CHECK(refusal(path + "#test").cause == "holds no sub-database \"test\"");
  const Dataset dataset = Dataset::open(path + "#val");
  CHECK(dataset.size() == 900);
  CHECK(dataset.shards()[0].path == path + "#val");
  DatasetReader reader(Dataset::attach(dataset.flat()));
  SampleView view;
  reader.read(899, view);
  CHECK(view.key == "10899");

  const fs::path zoo = shared_path("zoo/lmdb/rkv_ref_env_64");
  if (!zoo.empty()) CHECK(dump_all(format(), zoo.string() + "#subdb").size() == 50);
}

TEST_CASE("data is taken for what --as says", "[formats][spec]") {
  TemporaryFolder folder;
  write_text(folder / "raw/cat/1.txt", "one");
  write_text(folder / "raw/2.txt", "two");
  const std::string raw = (folder / "raw").string();
  CHECK(Dataset::open(raw).info().layout == "class-per-directory");
  const Dataset flat = Dataset::open(raw + "#as=flat");
  CHECK(flat.size() == 2);
  CHECK(flat.info().layout == "flat");
  SampleView view;
  DatasetReader(flat).read(1, view);
  CHECK(view.key == "cat/1");
  CHECK(flat.kind_reason().find("taken as flat") != std::string::npos);
  write_with_liblmdb(folder / "raw/x.lmdb", {{"a", "1"}});
  CHECK(Dataset::open(raw).format().name() == "lmdb");
  CHECK(Dataset::open(raw + "#as=folder").format().name() == "folder");
  CHECK(Dataset::open(raw + "#as=lmdb").size() == 1);
  CHECK(error_of([&] { Dataset::open(raw + "#as=tar"); }).cause == "holds no such shards");
  CHECK(error_of([&] { Dataset::open(raw + "/x.lmdb#as=hdf5"); }).cause == "is not hdf5");
  const ErrorInfo unknown = error_of([&] { Dataset::open(raw + "#as=zip"); });
  CHECK(unknown.code == ErrorCode::kInvalidArgument);
  CHECK(unknown.remedy.find("class-per-directory") != std::string::npos);
  CHECK(error_of([&] { Dataset::open(raw + "/2.txt#part"); }).cause.find("only LMDB and HDF5") ==
        0);
}

}  // namespace shardmill
