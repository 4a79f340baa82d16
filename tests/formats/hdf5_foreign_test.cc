// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>

#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/catch.h"
#include "tests/support/support.h"

namespace shardmill {
namespace {

using Json = nlohmann::json;
using test::TemporaryFolder;

// Writes `file.h5` with h5py; false if that is not installed.
bool h5py(const TemporaryFolder& folder, const std::string& body) {
  test::write_text(folder / "make.py", "import h5py, numpy as np\nwith h5py.File('" +
                                           (folder / "file.h5").string() + "', 'w') as f:\n" +
                                           body);
  const auto made = test::run_command("/usr/bin/python3 '" + (folder / "make.py").string() + "'");
  if (made.status == 0) return true;
  INFO(made.err);
  REQUIRE(made.err.find("No module named") != std::string::npos);
  test::skip("python3-h5py is not installed");
  return false;
}

ErrorInfo open_error(const std::filesystem::path& path) {
  try {
    OpenShard shard(find_format("hdf5"), path);
  } catch (const Error& error) {
    return error.info();
  }
  FAIL("no error was thrown");
  return {};
}

// path -> facts of one kind, from the list beside the zoo.
std::multimap<std::string, Json> zoo_facts(const std::string& kind) {
  std::multimap<std::string, Json> out;
  std::ifstream list(test::shared_path("zoo/expected.tsv"));
  for (std::string line; std::getline(list, line);) {
    const std::size_t one = line.find('\t');
    const std::size_t two = line.find('\t', one + 1);
    if (line.substr(one + 1, two - one - 1) != kind) continue;
    out.emplace(line.substr(0, one), Json::parse(line.substr(two + 1)));
  }
  return out;
}

}  // namespace

TEST_CASE("hdf5 lends rows of foreign arrays from the map", "[formats][hdf5]") {
  TemporaryFolder folder;
  if (!h5py(folder,
            "  f.create_dataset('x', data=np.arange(2400, dtype='u2').reshape(100, 24),"
            " chunks=(10, 24))\n  f['g/y'] = np.arange(100)\n")) {
    return;
  }
  OpenShard shard(find_format("hdf5"), folder / "file.h5", Access::kMap);
  REQUIRE(shard.reader().size() == 100);
  REQUIRE(shard.reader().info().layout == "arrays");
  SampleView view;
  shard.reader().read(10, view);
  REQUIRE(view.key == "000000000010");
  REQUIRE(view.fields.size() == 2);
  REQUIRE(view.fields[0].name == "g/y");
  const std::byte* const y = view.fields[0].bytes.data();
  const std::byte* const x = view.fields[1].bytes.data();
  REQUIRE(*view.fields[1].array == ArrayType{DType::kUInt16, {24}});
  shard.reader().read(11, view);
  REQUIRE(view.fields[0].bytes.data() == y + 8);
  REQUIRE(view.fields[1].bytes.data() == x + 48);
}

TEST_CASE("hdf5 lists datasets of different lengths", "[formats][hdf5]") {
  TemporaryFolder folder;
  if (!h5py(folder, "  f['train/x'] = np.zeros(7)\n  f['test/x'] = np.zeros(5)\n")) return;
  const ErrorInfo error = open_error(folder / "file.h5");
  REQUIRE(error.code == ErrorCode::kInvalidArgument);
  REQUIRE(error.cause.find("/test/x: 5, /train/x: 7") != std::string::npos);
}

TEST_CASE("hdf5 names what it cannot read", "[formats][hdf5]") {
  const auto [body, words] = GENERATE(table<std::string, std::string>({
      {"  f['x'] = [['a', 'b']]\n",
       "dataset \"/x\": values of type string, several in a row, are not supported"},
      {"  f['y'] = 1\n  f.create_dataset('x', data=[f['y'].ref], dtype=h5py.ref_dtype)\n",
       "values of type reference are not supported"},
      {"  p = h5py.h5p.create(h5py.h5p.DATASET_CREATE)\n  p.set_chunk((9,))\n"
       "  p.set_filter(32001, h5py.h5z.FLAG_OPTIONAL, (1,))\n"
       "  h5py.h5d.create(f.id, b'x', h5py.h5t.STD_I32LE, h5py.h5s.create_simple((9,)), p)\n",
       "filter 32001"},
      {"  f.attrs['a'] = 1\n", "no dataset with rows"},
      {"  v = h5py.VirtualLayout((4,), 'f4')\n"
       "  v[:] = h5py.VirtualSource('nowhere.h5', 'y', (4,))\n"
       "  f.create_virtual_dataset('x', v)\n",
       "other files"},
      {"  f.create_dataset('x', (4,), 'f4', external=[('/nowhere', 0, 16)])\n", "other files"},
      {"  f.attrs['shardmill_version'] = 2\n", "layout version 2"},
  }));
  TemporaryFolder folder;
  if (!h5py(folder, body)) return;
  const ErrorInfo info = open_error(folder / "file.h5");
  REQUIRE(info.code == ErrorCode::kUnsupported);
  REQUIRE(std::string(Error(info).what()).find(words) != std::string::npos);
}

TEST_CASE("hdf5 says what is wrong with files that claim its layout", "[formats][hdf5]") {
  const std::string keys =
      "  f.attrs['shardmill_version'] = 1\n"
      "  f['__key__/data'] = np.frombuffer(b'ab', 'u1')\n"
      "  f['__key__/offsets'] = np.array([0, 1, 2], 'u8')\n";
  const auto [body, words] = GENERATE(table<std::string, std::string>({
      {"  del f['__key__']\n", "\"__key__\" is missing"},
      {"  f['cls'] = np.zeros(3, 'i8')\n", "it has 3 elements, 2 are expected"},
      {"  f['cls'] = np.zeros(2, 'i4')\n", "class numbers must be int64"},
      {"  f['jpg/data'] = np.zeros(2, 'u1')\n", "jpg/offsets"},
      {"  f['jpg/data'] = np.zeros(2, 'u1')\n  f['jpg/offsets'] = np.array([0, 1, 3], 'u8')\n",
       "field \"jpg\": its offsets do not cover its data"},
      {"  f['jpg/data'] = np.zeros(2, 'u1')\n  f['jpg/offsets'] = np.array([0, 1, 2], 'i8')\n",
       "it must be a vector of uint64"},
      {"  f['x__present'] = np.zeros(2, 'u1')\n", "the field it belongs to is missing"},
      {"  f['s'] = ['a', 'b']\n", "values of type string are not supported"},
      {"  f['l'] = h5py.SoftLink('/__key__')\n", "links to other places are not supported"},
      {"  f.create_dataset('x', (2, 4), 'f4', chunks=(1, 4))\n", "are not in the file"},
  }));
  TemporaryFolder folder;
  if (!h5py(folder, keys + body)) return;
  const ErrorInfo info = open_error(folder / "file.h5");
  REQUIRE((info.code == ErrorCode::kDataLoss || info.code == ErrorCode::kUnsupported));
  REQUIRE(std::string(Error(info).what()).find(words) != std::string::npos);
}

TEST_CASE("hdf5 recognises its files by content", "[formats][hdf5]") {
  TemporaryFolder folder;
  const Format& format = find_format("hdf5");
  test::write_text(folder / "short.h5", "\x89HDF");
  test::write_text(folder / "empty.h5", "");
  test::write_text(folder / "user", std::string(2048, 'u') + "\x89HDF\r\n\x1a\n");
  test::write_text(folder / "odd", std::string(700, 'u') + "\x89HDF\r\n\x1a\n");
  REQUIRE_FALSE(format.recognises(folder / "short.h5"));
  REQUIRE_FALSE(format.recognises(folder / "empty.h5"));
  REQUIRE_FALSE(format.recognises(folder.path()));
  REQUIRE_FALSE(format.recognises(folder / "odd"));
  REQUIRE(format.recognises(folder / "user"));
}

TEST_CASE("hdf5 describes the files of the zoo", "[formats][hdf5]") {
  if (test::shared_path("zoo").empty()) return test::skip("no zoo of real files");
  const auto datasets = zoo_facts("hdf5.dataset");
  int files = 0, refused = 0, shapes = 0, sums = 0, strings = 0, filters = 0;
  for (const auto& [path, file] : zoo_facts("hdf5.file")) {
    CAPTURE(path);
    ++files;
    const auto [begin, end] = datasets.equal_range(path);
    // Filters that are not installed, and a chunk whose checksum is wrong.
    const bool readable = std::none_of(begin, end, [](const auto& row) {
      const std::string words = row.second.value("stock_hdf5", "");
      return words.find("plugins") != std::string::npos ||
             words.find("Fletcher32") != std::string::npos ||
             row.second.value("filters", Json()).dump().find("lzf") != std::string::npos;
    });
    Json described;
    try {
      described = Json::parse(find_format("hdf5").describe(test::shared_path("zoo/" + path), true));
    } catch (const Error& error) {
      INFO(error.what());
      REQUIRE(error.info().path == test::shared_path("zoo/" + path).string());
      const bool reject = file["expect"].get<std::string>().starts_with("reject");
      REQUIRE((reject || !readable));
      ++(reject ? refused : filters);
      continue;
    }
    REQUIRE(file["expect"] == "ok");
    std::map<std::string, Json> got;
    for (const Json& dataset : described["datasets"]) got[dataset["path"]] = dataset;
    for (auto row = begin; row != end; ++row) {
      const Json& wanted = row->second;
      CAPTURE(wanted["dataset"].get<std::string>(), wanted["type"].get<std::string>());
      REQUIRE(got.count(wanted["dataset"]) == 1);
      const Json& dataset = got[wanted["dataset"]];
      REQUIRE(dataset["shape"] == wanted["shape"]);
      REQUIRE(dataset["layout"] == wanted["layout"]);
      REQUIRE(dataset["chunks"] == wanted.value("chunks", Json()));
      ++shapes;
      if (wanted.contains("sha256_le") && dataset.contains("sha256")) {
        REQUIRE(dataset["sha256"] == wanted["sha256_le"]);
        ++sums;
      }
      if (wanted.contains("strings_sha256")) {
        REQUIRE(dataset["sha256"] == wanted["strings_sha256"]);
        ++strings;
      }
    }
  }
  std::cout << "expected.tsv: checked " << files + shapes << " lines of hdf5" << std::endl;
  std::cout << "zoo: " << files << " files, " << refused << " refused as they should be, "
            << filters << " need filters or are damaged; " << shapes << " shapes, " << sums
            << " sums and " << strings << " sums of strings agree" << std::endl;
  REQUIRE(sums >= 480);
}

TEST_CASE("hdf5 opens or refuses every file of the zoo", "[formats][hdf5]") {
  if (test::shared_path("zoo").empty()) return test::skip("no zoo of real files");
  int opened = 0;
  for (const auto& [path, file] : zoo_facts("hdf5.file")) {
    CAPTURE(path);
    try {
      OpenShard shard(find_format("hdf5"), test::shared_path("zoo/" + path));
      SampleView view;
      for (std::uint64_t n = 0; n < std::min<std::uint64_t>(shard.reader().size(), 100); ++n) {
        shard.reader().will_need(n);
        shard.reader().read(n, view);
        REQUIRE_FALSE(view.fields.empty());
      }
      ++opened;
    } catch (const Error& error) {
      REQUIRE_FALSE(error.info().cause.empty());
    }
  }
  REQUIRE(opened >= 25);
}

}  // namespace shardmill
