// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/array.h>
#include <shardmill/formats/digest.h>

#include <nlohmann/json.hpp>

#include "tests/converters/data.h"
#include "tests/support/catch.h"
#include "tests/tools/program.h"

using namespace shardmill;
using namespace shardmill::test;
using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

Json json_of(const CommandResult& result, int status = 0) {
  INFO(result.err);
  REQUIRE(result.status == status);
  return Json::parse(result.out);
}

// Runs Python with DIR as its first argument.
void python(const fs::path& at, const std::string& program) {
  const CommandResult made =
      run_command("cd '" + at.string() + "' && /usr/bin/python3 - <<'E'\n" + program + "\nE");
  REQUIRE(made.err == "");
}

}  // namespace

TEST_CASE("inspect describes a dataset", "[inspect]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 2, 3);
  write_text(folder / "raw/b/n02.txt", "hello");
  for (const char* format : {"tar", "lmdb", "hdf5", "folder"}) {
    INFO(format);
    const std::string out = std::string("out-") + format;
    REQUIRE(shardmill_in(folder.path(),
                         "convert raw " + out + " --quiet --shard-count 2 --to " + format)
                .status == 0);
    const Json json = json_of(shardmill_in(folder.path(), "inspect --json " + out));
    CHECK(json.at("format") == format);
    CHECK(json.at("layout").is_string());
    CHECK(json.at("kind_reason") == "manifest manifest.json");
    CHECK(json.at("order") == "class-sorted");
    CHECK(json.at("shards") == (std::string(format) == "folder" ? 1 : 3));
    CHECK(json.at("samples") == 6);
    CHECK(json.at("bytes") > 0);
    CHECK(json.at("classes") == Json{"a", "b"});
    CHECK(json.at("warnings") == Json::array());
    REQUIRE(json.at("fields").size() == 3);
    const Json& cls = json.at("fields")[0];
    CHECK(cls.at("name") == "cls");
    CHECK(cls.at("kind") == "class");
    CHECK(cls.at("bytes_min") == 1);
    const Json& jpg = json.at("fields")[1];
    CHECK(jpg.at("kind") == "bytes");
    CHECK(jpg.at("bytes_min") == 100);
    CHECK(jpg.at("bytes_max") == 285);
    CHECK(jpg.at("bytes_mean") == 192.5);
    const Json& txt = json.at("fields")[2];
    CHECK(txt.at("optional") == true);
    CHECK(txt.at("samples") == 1);
    const CommandResult text = shardmill_in(folder.path(), "inspect " + out);
    CHECK(text.status == 0);
    CHECK(text.err == "");
    CHECK(text.out.find("6 samples in ") != std::string::npos);
    CHECK(text.out.find("2 classes: a, b") != std::string::npos);
  }
}

TEST_CASE("inspect lists keys and the sums of fields, alike in all formats", "[inspect]") {
  TemporaryFolder folder;
  write_text(folder / "raw/a/tab\there.jpg", "one");
  write_text(folder / "raw/b/two.jpg", "");
  const std::string expected = "a/tab\\x09here\tcls\t1\t" + sha256_hex(as_bytes("0")) + "\n" +
                               "a/tab\\x09here\tjpg\t3\t" + sha256_hex(as_bytes("one")) + "\n" +
                               "b/two\tcls\t1\t" + sha256_hex(as_bytes("1")) + "\n" +
                               "b/two\tjpg\t0\t" + sha256_hex({}) + "\n";
  CHECK(shardmill_in(folder.path(), "inspect raw --list").out == "a/tab\\x09here\nb/two\n");
  CHECK(shardmill_in(folder.path(), "inspect raw --list --hash").out == expected);
  for (const char* format : {"tar", "lmdb", "hdf5", "folder"}) {
    const std::string convert = std::string("convert raw out --force --quiet --to ") + format;
    REQUIRE(shardmill_in(folder.path(), convert).status == 0);
    CHECK(shardmill_in(folder.path(), "inspect out --list --hash").out == expected);
  }
  const Json json = json_of(shardmill_in(folder.path(), "inspect raw --list --json"));
  CHECK(json.at("keys") == Json{"a/tab\\x09here", "b/two"});
}

TEST_CASE("inspect shows and extracts samples by number and by key", "[inspect]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 2, 2);
  write_text(folder / "raw/b/n01.txt", "a text\n");
  REQUIRE(shardmill_in(folder.path(), "convert raw out --quiet --to hdf5").status == 0);
  const Json by_number = json_of(shardmill_in(folder.path(), "inspect out --sample 3 --json"));
  const Json by_key = json_of(shardmill_in(folder.path(), "inspect out --sample b/n01 --json"));
  CHECK(by_number == by_key);
  CHECK(by_key.at("number") == 3);
  CHECK(by_key.at("key") == "b/n01");
  CHECK(by_key.at("fields")[2].at("text") == "a text\n");
  CHECK(shardmill_in(folder.path(), "inspect out --sample 4").status == 1);

  CHECK(shardmill_in(folder.path(), "inspect out --sample 3 --extract ex").status == 0);
  CHECK(tree(folder / "ex") ==
        std::map<std::string, std::string>{{"b", "DIR"},
                                           {"b/n01.cls", "1"},
                                           {"b/n01.jpg", read_text(folder / "raw/b/n01.jpg")},
                                           {"b/n01.txt", "a text\n"}});
  const CommandResult again = shardmill_in(folder.path(), "inspect out --extract ex");
  CHECK(again.status != 0);
  CHECK(again.err.find("exists already") != std::string::npos);
  CHECK(shardmill_in(folder.path(), "inspect out --extract all").status == 0);
  CHECK(read_text(folder / "all/a/n00.jpg") == read_text(folder / "raw/a/n00.jpg"));
}

TEST_CASE("inspect extracts nothing outside the folder", "[inspect]") {
  TemporaryFolder folder;
  fs::create_directories(folder / "in/deep");
  python(folder / "in",
         "import io, lmdb, msgpack, tarfile\n"
         "for i, name in enumerate(('../x.jpg', '/tmp/shardmill-abs.jpg', 'a/../../x.jpg')):\n"
         "  with tarfile.open(f'{i}.tar', 'w', format=tarfile.USTAR_FORMAT) as t:\n"
         "    m = tarfile.TarInfo(name); m.size = 3; t.addfile(m, io.BytesIO(b'bad'))\n"
         "for i, s in ((3, {'__key__': 'k', '/../../x': b'bad'}), (4, {'__key__': 'k\\0', 'b': "
         "b''})):\n"
         "  e = lmdb.open(f'{i}.tar', map_size=1 << 20)\n"
         "  with e.begin(write=True) as t:\n"
         "    t.put(b'000000000000', msgpack.packb(s))\n"
         "    t.put(b'__shardmill__', b'{\"version\":1,\"count\":1}')\n"
         "  e.close()");
  const auto before = tree(folder.path());
  for (int i = 0; i < 5; ++i) {
    for (const char* sample : {"", " --sample 0"}) {
      const CommandResult result = shardmill_in(
          folder / "in", "inspect " + std::to_string(i) + ".tar --extract deep" + sample);
      INFO(i << result.err);
      CHECK(result.status == 1);
      CHECK(result.err.find(".tar: ") != std::string::npos);
      CHECK(tree(folder.path()) == before);
    }
  }
  CHECK_FALSE(fs::exists("/tmp/shardmill-abs.jpg"));
}

TEST_CASE("inspect describes one payload", "[inspect]") {
  TemporaryFolder folder;
  python(folder.path(),
         "import numpy as np\nfrom PIL import Image\n"
         "p = np.arange(5 * 7 * 3, dtype='u1').reshape(5, 7, 3)\n"
         "Image.fromarray(p).save('p.png')\np.tofile('p.rgb')\n"
         "a = np.asfortranarray(np.arange(6, dtype='>i4').reshape(2, 3)); np.save('a.npy', a)\n"
         "np.ascontiguousarray(a).astype('<i4').tofile('a.raw')");
  Json json = json_of(shardmill_in(folder.path(), "inspect p.png --json --hash"));
  CHECK(json.at("format") == "png");
  CHECK(json.at("width") == 7);
  CHECK(json.at("height") == 5);
  CHECK(json.at("channels") == 3);
  CHECK(json.at("bit_depth") == 8);
  CHECK(json.at("orientation") == 1);
  CHECK(json.at("rgb_sha256") == sha256_hex(as_bytes(read_text(folder / "p.rgb"))));
  json = json_of(shardmill_in(folder.path(), "inspect a.npy --json --hash"));
  CHECK(json.at("dtype") == "int32");
  CHECK(json.at("shape") == Json{2, 3});
  CHECK(json.at("sha256") == sha256_hex(as_bytes(read_text(folder / "a.raw"))));
  CHECK(shardmill_in(folder.path(), "inspect p.png").out.find("width: 7\n") != std::string::npos);

  const std::string image = read_text(folder / "p.png");
  write_text(folder / "p.png", image.substr(0, image.size() - 20));
  const CommandResult cut = shardmill_in(folder.path(), "inspect p.png --hash");
  CHECK(cut.status == 1);
  CHECK(cut.err.find("shardmill: p.png: ") == 0);
}

TEST_CASE("inspect describes files that hold no samples", "[inspect]") {
  TemporaryFolder folder;
  python(folder.path(),
         "import h5py, io, lmdb, numpy as np, tarfile\n"
         "with h5py.File('two.h5', 'w') as f:\n"
         "  f['x'] = np.arange(4, dtype='<i2'); f['g/y'] = np.arange(3.)\n"
         "with tarfile.open('no.tar', 'w') as t:\n"
         "  m = tarfile.TarInfo('README'); m.size = 2; t.addfile(m, io.BytesIO(b'hi'))\n"
         "e = lmdb.open('subs.lmdb', map_size=1 << 20, max_dbs=2)\n"
         "with e.begin(write=True) as t:\n"
         "  t.put(b'k', b'v', db=e.open_db(b'one', txn=t))\n"
         "e.close()");
  Json json = json_of(shardmill_in(folder.path(), "inspect two.h5 --json --hash"));
  CHECK(json.at("format") == "hdf5");
  CHECK(json.at("samples") == 0);
  REQUIRE(json.at("warnings").size() == 1);
  CHECK(json.at("warnings")[0].get<std::string>().find("different lengths") != std::string::npos);
  REQUIRE(json.at("datasets").size() == 2);
  for (const Json& dataset : json.at("datasets")) {
    if (dataset.at("path") != "/x") continue;
    CHECK(dataset.at("shape") == Json{4});
    CHECK(dataset.at("sha256") == sha256_hex(as_bytes(std::string_view("\0\0\1\0\2\0\3\0", 8))));
  }
  json = json_of(shardmill_in(folder.path(), "inspect no.tar --json --hash"));
  REQUIRE(json.at("members").size() == 1);
  CHECK(json.at("members")[0].at("name") == "README");
  CHECK(json.at("members")[0].at("sha256") == sha256_hex(as_bytes("hi")));
  json = json_of(shardmill_in(folder.path(), "inspect subs.lmdb --json"));
  CHECK(json.at("databases").dump().find("\"one\"") != std::string::npos);
  CHECK(shardmill_in(folder.path(), "inspect two.h5").out.find("datasets:\n") != std::string::npos);
  CHECK(shardmill_in(folder.path(), "inspect no.tar --strict --json").status == 1);
  write_text(folder / "text", "not a file of any format that is known here, though readable");
  CHECK(shardmill_in(folder.path(), "inspect text").status == 1);
}

TEST_CASE("--strict makes warnings count", "[inspect]") {
  TemporaryFolder folder;
  write_text(folder / "raw/a/1.jpg", "x");
  CHECK(shardmill_in(folder.path(), "inspect raw --strict").status == 0);
  write_text(folder / "raw/a/2.jpg", "");
  CHECK(shardmill_in(folder.path(), "inspect raw").status == 0);
  CHECK(shardmill_in(folder.path(), "inspect raw --strict").status == 1);
}

TEST_CASE("inspect --list --hash is the same for equal arrays in every format", "[inspect]") {
  TemporaryFolder folder;
  python(folder.path(),
         "import numpy as np, os\n"
         "for c in 'ab':\n"
         "  os.makedirs('raw/' + c)\n"
         "  for i in range(3): np.save(f'raw/{c}/{i}.npy', np.full((2, 3), i, 'f4'))");
  std::string expected;
  for (const char* format : {"tar", "lmdb", "hdf5"}) {
    const std::string out = format;
    REQUIRE(shardmill_in(folder.path(), "convert raw " + out + " --quiet --to " + out).status == 0);
    const CommandResult list = shardmill_in(folder.path(), "inspect " + out + " --list --hash");
    if (expected.empty()) expected = list.out;
    CHECK(list.out == expected);
  }
  CHECK(expected.find(sha256_hex(as_bytes(read_text(folder / "raw/a/0.npy")))) !=
        std::string::npos);
}
