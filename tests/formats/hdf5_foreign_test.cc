// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/digest.h>
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

// Facts that a description of one dataset is compared with; returns how many sums agreed.
int check_dataset(const Json& dataset, const Json& wanted) {
  REQUIRE(dataset["shape"] == wanted["shape"]);
  REQUIRE(dataset["layout"] == wanted["layout"]);
  REQUIRE(dataset["chunks"] == wanted.value("chunks", Json()));
  REQUIRE(dataset["filters"].size() == wanted.value("filters", Json::array()).size());
  const std::string numpy = wanted.value("dtype_numpy", "");
  const std::string type = wanted["type"];
  const bool number =
      type.starts_with("int") || type.starts_with("uint") || type.starts_with("float");
  if (number && !numpy.empty()) REQUIRE(dataset["dtype"] == numpy);
  if (type.starts_with("string(") && numpy.starts_with("|S") && !type.starts_with("string(vlen")) {
    REQUIRE(dataset["dtype"] == "string(" + numpy.substr(2) + ")");
  }
  int sums = 0;
  for (const char* key :
       {"sha256_le", "strings_sha256", "concat_sha256_le", "sha256_raw_file_order"}) {
    if (!wanted.contains(key) || !dataset.contains("sha256")) continue;
    REQUIRE(dataset["sha256"] == wanted[key]);
    ++sums;
  }
  // Fixed strings: the list has the first values, which may be all of them.
  if (wanted.contains("sha256_raw") && type.starts_with("string(") && dataset.contains("sha256")) {
    std::size_t count = 1;
    for (const Json& extent : wanted["shape"]) count *= extent.get<std::size_t>();
    if (count == wanted["head"].size()) {
      std::string joined;
      for (const Json& text : wanted["head"]) {
        joined += std::string(joined.empty() ? "" : std::string(1, '\0')) + text.get<std::string>();
      }
      Sha256 sha;
      sha.update(as_bytes(joined));
      REQUIRE(dataset["sha256"] == sha.hex());
      ++sums;
    }
  }
  if (wanted.contains("fields_sha256_le") && dataset.contains("fields")) {
    const Json& sums_of = wanted["fields_sha256_le"];  // their first 16 digits
    std::size_t compared = 0;
    for (const Json& field : dataset["fields"]) {
      const auto fact = sums_of.find(field["name"]);
      if (fact == sums_of.end() || !field.contains("sha256")) continue;
      REQUIRE(field["sha256"].get<std::string>().substr(0, 16) == *fact);
      ++compared;
    }
    const bool readable =
        dataset.dump().find("sha256") != std::string::npos;  // its filters are here
    REQUIRE(compared == (readable ? sums_of.size() : 0));
    sums += readable;
  }
  return sums;
}

TEST_CASE("hdf5 describes the files of the zoo", "[formats][hdf5]") {
  if (test::shared_path("zoo").empty()) return test::skip("no zoo of real files");
  const auto datasets = zoo_facts("hdf5.dataset");
  int files = 0, refused = 0, damaged = 0, lines = 0, sums = 0;
  for (const auto& [path, file] : zoo_facts("hdf5.file")) {
    CAPTURE(path);
    ++files;
    const Format& format = find_format("hdf5");
    const std::string full = test::shared_path("zoo/" + path).string();
    Json described;
    try {
      described = Json::parse(format.describe(full, true));
    } catch (const Error& error) {
      INFO(error.what());
      REQUIRE(error.info().path == full);
      if (file["expect"].get<std::string>().starts_with("reject")) {
        ++refused;
        continue;
      }
      // A chunk whose checksum is wrong: only its values cannot be had.
      REQUIRE(error.info().cause.find("Fletcher32") != std::string::npos);
      ++damaged;
      described = Json::parse(format.describe(full, false));
    }
    REQUIRE(file["expect"] == "ok");
    std::map<std::string, Json> got;
    for (const Json& dataset : described["datasets"]) got[dataset["path"]] = dataset;
    REQUIRE(got.size() == file["n_datasets"]);
    const auto [begin, end] = datasets.equal_range(path);
    for (auto row = begin; row != end; ++row) {
      CAPTURE(row->second["dataset"].get<std::string>(), row->second["type"].get<std::string>());
      REQUIRE(got.count(row->second["dataset"]) == 1);
      sums += check_dataset(got[row->second["dataset"]], row->second);
      ++lines;
    }
  }
  // What the notes say: more datasets are there than the list names.
  int notes = 0;
  for (const auto& [path, note] : zoo_facts("hdf5.note")) {
    const int more = std::stoi(note["text"].get<std::string>());
    const auto facts = zoo_facts("hdf5.file");
    REQUIRE(datasets.count(path) + static_cast<std::size_t>(more) ==
            facts.find(path)->second["n_datasets"].get<std::size_t>());
    ++notes;
  }
  std::cout << "expected.tsv: checked " << files + lines + notes << " lines of hdf5" << std::endl;
  std::cout << "zoo: " << files << " files, " << refused << " refused as they should be, "
            << damaged << " with a damaged chunk; " << lines << " datasets, " << sums
            << " sums agree" << std::endl;
  REQUIRE(static_cast<std::size_t>(lines) == datasets.size());
  REQUIRE(damaged <= 1);
  REQUIRE(sums >= 560);
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
