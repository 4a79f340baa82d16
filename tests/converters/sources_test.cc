// SPDX-License-Identifier: Apache-2.0
// What conversions read beside datasets: lists, arrays, tokens, pairs; and what they make of it.
#include <shardmill/converters/convert.h>

#include <set>

#include "tests/converters/data.h"
#include "tests/support/catch.h"

using namespace shardmill;
using namespace shardmill::test;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kFormats = {"tar", "lmdb", "hdf5", "folder"};

// A sample's field as text, or "-".
std::string value_of(const SampleView& sample, const std::string& field) {
  const FieldView* found = sample.find(field);
  return found == nullptr ? "-" : std::string(as_text(found->bytes));
}

// Reads all samples as key|field=value|..., for fields that are text.
std::vector<std::string> lines_of(const fs::path& dataset, const std::vector<std::string>& fields) {
  DatasetReader reader(Dataset::open(dataset.string()));
  std::vector<std::string> lines;
  SampleView sample;
  for (std::uint64_t n = 0; n < reader.size(); ++n) {
    reader.read(n, sample);
    std::string line(sample.key);
    for (const std::string& field : fields) line += "|" + value_of(sample, field);
    lines.push_back(line);
  }
  return lines;
}

void python(const TemporaryFolder& folder, const std::string& code) {
  write_text(folder / "make.py", code);
  const CommandResult made =
      run_command("cd '" + folder.path().string() + "' && /usr/bin/python3 make.py");
  REQUIRE(made.err == "");
}

// Converts into every format, checks that all are equal and verify, returns the tar.
fs::path convert_to_all(const TemporaryFolder& folder, ConvertOptions options) {
  std::string digest;
  for (const std::string& format : kFormats) {
    INFO(format);
    options.format = format;
    options.destination = folder / ("out-" + format);
    options.jobs = 2;
    options.shard_samples = 3;
    fs::remove_all(options.destination);
    const ConvertReport report = convert(options);
    if (digest.empty()) digest = report.content_digest;
    CHECK(report.content_digest == digest);
    CHECK(verify(options.destination.string(), {}).ok());
    // From the stored plan, without a look at the sources, the same bytes come out.
    const auto whole = tree(options.destination);
    options.destination = folder / "planned";
    options.plan_only = true;
    convert(options);
    options.plan_only = false;
    ConvertOptions resumed;
    resumed.destination = options.destination;
    resumed.resume = true;
    resumed.jobs = 1;
    convert(resumed);
    CHECK(tree(options.destination) == whole);
    fs::remove_all(options.destination);
  }
  return folder / "out-tar";
}

}  // namespace

TEST_CASE("A CSV list becomes samples: paths, classes, other columns", "[sources][list]") {
  TemporaryFolder folder;
  for (int i = 0; i < 5; ++i) {
    write_text(folder / "img" / ("n" + std::to_string(i) + ".JPG"), noise(50, 1));
  }
  write_text(folder / "list.csv",
             "\xEF\xBB\xBFpath,label,caption\r\nimg/n0.JPG,dog,\"a, \"\"b\"\"\"\r\n"
             "img/n1.JPG,cat,\"two\nlines\"\r\nimg/n2.JPG,dog,\r\n\r\nimg/n3.JPG,ant,x\r\n"
             "img/n4.JPG,cat,\xC3\xA9\r\n");
  auto options = options_for(folder / "list.csv", folder / "out", "tar");
  options.list_class = "label";
  const fs::path out = convert_to_all(folder, options);
  CHECK(lines_of(out, {"cls", "caption"}) ==
        std::vector<std::string>{"img/n0|2|a, \"b\"", "img/n1|1|two\nlines", "img/n2|2|",
                                 "img/n3|0|x", "img/n4|1|\xC3\xA9"});
  CHECK(load_manifest(out / "manifest.json").classes ==
        std::vector<std::string>{"ant", "cat", "dog"});
  CHECK(lines_of(out, {"jpg"})[0] == "img/n0|" + noise(50, 1));

  options.destination = folder / "reported";
  CHECK(convert(options).warnings.at(0) ==
        "list.csv: 5 extensions taken in lower case, jpeg as jpg (first: \"img/n0.JPG\")");

  // Another root, named columns, numbers as classes, no header, tabs.
  write_text(folder / "lists/l.tsv", "n1.JPG\t7\t\"q\nn0.JPG\t3\tr\n");
  options = options_for(folder / "lists/l.tsv", folder / "tsv", "lmdb");
  options.list_root = folder / "img";
  options.list_files = {{"image.jpg", "0"}};
  options.list_class = "1";
  convert(options);
  CHECK(lines_of(folder / "tsv", {"cls", "2"}) == std::vector<std::string>{"n1|7|\"q", "n0|3|r"});
  CHECK(lines_of(folder / "tsv", {"image.jpg"})[0] == "n1|" + noise(50, 1));

  options.list_class = "none";
  options.destination = folder / "bad";
  ErrorInfo error = error_of([&] { convert(options); });
  CHECK(error.code == ErrorCode::kInvalidArgument);
  CHECK(error.remedy == "it has 0, 1, 2");
  write_text(folder / "lists/l.tsv", "n1.JPG\t7\nn0.JPG\t3\tr\n");
  error = error_of([&] { convert(options); });
  CHECK(error.place == "line 2");
  CHECK(error.cause == "has 3 columns, the first line 2");
  write_text(folder / "lists/l.tsv", "n1.JPG\tx\nnone.JPG\ty\n");
  options.list_class.clear();
  error = error_of([&] { convert(options); });
  CHECK(error.code == ErrorCode::kNotFound);
  CHECK(error.path == (folder / "img/none.JPG").string());
  CHECK(error.place == "sample \"none\" field \"image.jpg\"");
}

TEST_CASE("A JSONL list keeps nested values as JSON and what is absent absent", "[sources][list]") {
  TemporaryFolder folder;
  for (int i = 0; i < 3; ++i) write_text(folder / (std::to_string(i) + ".png"), noise(9, 2));
  write_text(folder / "l.jsonl",
             "{\"file\":\"0.png\",\"boxes\":[[1,2],[3,4.5]],\"n\":1,\"ok\":true}\n"
             "{\"file\":\"1.png\",\"n\":null,\"meta\":{\"a\":\"\\u00e9\"}}\n\n"
             "{\"file\":\"2.png\",\"boxes\":\"none\",\"late\":\"x\"}\n");
  const fs::path out = convert_to_all(folder, options_for(folder / "l.jsonl", "", "tar"));
  CHECK(lines_of(out, {"boxes.json", "boxes", "n", "ok", "meta.json", "late"}) ==
        std::vector<std::string>{"0|[[1,2],[3,4.5]]|-|1|true|-|-",
                                 "1|-|-|-|-|{\"a\":\"\xC3\xA9\"}|-", "2|-|none|-|-|-|x"});
  write_text(folder / "bad.jsonl", "{\"file\":\"0.png\"}\n{\"file\":\n");
  const ErrorInfo error =
      error_of([&] { convert(options_for(folder / "bad.jsonl", folder / "bad", "tar")); });
  CHECK(error.place == "line 2");
  CHECK(error.code == ErrorCode::kDataLoss);
}

TEST_CASE("Arrays of equal length are fields, idx files are images and labels", "[sources]") {
  TemporaryFolder folder;
  python(
      folder,
      "import numpy as np, struct\n"
      "np.save('x.npy', np.arange(120, dtype='u1').reshape(6, 4, 5))\n"
      "np.save('y.npy', np.arange(6)[::-1].copy())\n"
      "np.save('be.npy', np.arange(12, dtype='>f4').reshape(6, 2))\n"
      "np.save('f.npy', np.asfortranarray(np.zeros((6, 2))))\n"
      "np.save('short.npy', np.zeros(5))\n"
      "open('img-idx3-ubyte', 'wb').write(struct.pack('>IIII', 0x803, 4, 2, 3) + "
      "bytes(range(24)))\n"
      "open('lab-idx1-ubyte', 'wb').write(struct.pack('>II', 0x801, 4) + bytes([3, 1, 4, 1]))\n");
  auto options = options_for(folder / "x.npy", "", "tar");
  options.sources = {(folder / "x.npy").string(), (folder / "y.npy").string(),
                     (folder / "be.npy").string()};
  options.rename = {{"y", "cls"}};
  const fs::path out = convert_to_all(folder, options);
  CHECK(lines_of(out, {"cls"})[1] == "000000001|4");
  python(folder,
         "import tarfile, io, numpy as np\n"
         "t = tarfile.open('out-tar/shard-000000.tar')\n"
         "x = np.load(io.BytesIO(t.extractfile('000000002.x.npy').read()))\n"
         "assert (x == np.load('x.npy')[2]).all() and x.dtype == 'u1' and x.shape == (4, 5)\n"
         "b = np.load(io.BytesIO(t.extractfile('000000002.be.npy').read()))\n"
         "assert (b == np.load('be.npy')[2]).all()\n");
  for (const auto& [name, code] : {std::pair("f.npy", ErrorCode::kUnsupported),
                                   std::pair("short.npy", ErrorCode::kInvalidArgument)}) {
    options.sources.back() = (folder / name).string();
    options.destination = folder / "bad";
    options.format = "tar";
    CHECK(error_of([&] { convert(options); }).code == code);
  }
  options = options_for(folder / "img-idx3-ubyte", "", "tar");
  options.sources.push_back((folder / "lab-idx1-ubyte").string());
  const fs::path digits = convert_to_all(folder, options);
  CHECK(lines_of(digits, {"cls"}) ==
        std::vector<std::string>{"000000000|3", "000000001|1", "000000002|4", "000000003|1"});
  const std::string image = lines_of(digits, {"image.npy"})[1];
  CHECK(image.substr(image.size() - 6) == std::string("\6\7\10\11\12\13"));
}

TEST_CASE("Tokens: raw files and packed samples", "[sources][tokens]") {
  TemporaryFolder folder;
  python(folder, "import numpy as np\nnp.arange(1000, dtype='u2').tofile('t.bin')\n");
  auto options = options_for(folder / "t.bin", "", "tar");
  options.dtype = "uint16";
  options.seq_len = 100;
  CHECK(keys_of(convert_to_all(folder, options).string()).size() == 10);

  std::string lines;
  for (int i = 0; i < 9; ++i) {
    lines += "{\"__key__\":\"d" + std::to_string(i) + "\",\"tokens\":[";
    for (int t = 0; t < i; ++t) lines += (t > 0 ? "," : "") + std::to_string(10 * i + t);
    lines += "]}\n";
  }
  write_text(folder / "tok.jsonl", lines);
  options = options_for(folder / "tok.jsonl", "", "tar");
  options.dtype = "uint16";
  options.pack = 8;
  options.eos = 999;
  const fs::path out = convert_to_all(folder, options);  // 36 tokens and 9 ends: 5 rows
  python(folder,
         "import tarfile, io, numpy as np\n"
         "rows = []\n"
         "for s in range(2):\n"
         "  t = tarfile.open(f'out-tar/shard-{s:06}.tar')\n"
         "  rows += [np.load(io.BytesIO(t.extractfile(m).read())) for m in t.getmembers()]\n"
         "want = [v for i in range(9) for v in [10 * i + t for t in range(i)] + [999]]\n"
         "assert len(rows) == 5 and all(r.dtype == 'u2' for r in rows)\n"
         "assert np.concatenate(rows).tolist() == want[:40]\n");
  options.eos = 70'000;
  options.destination = folder / "bad";
  options.format = "tar";
  const ErrorInfo error = error_of([&] { convert(options); });
  CHECK(error.cause == "the token 70000 does not fit uint16");
}

TEST_CASE("Pairs add files beside those of a folder", "[sources][pair]") {
  TemporaryFolder folder;
  for (int i = 0; i < 4; ++i) {
    const std::string stem = "v" + std::to_string(i);
    write_text(folder / "JPEGImages" / (stem + ".jpg"), noise(40, 1));
    if (i != 2) write_text(folder / "Seg" / (stem + ".png"), stem);
  }
  auto options = options_for(folder / "JPEGImages", folder / "out", "tar");
  options.pairs = {{"seg.png", "../Seg/{stem}.png"}};
  const ErrorInfo error = error_of([&] { convert(options); });
  CHECK(error.code == ErrorCode::kNotFound);
  CHECK(error.path == (folder / "Seg/v2.png").string());
  CHECK(error.place == "sample \"v2\" field \"seg.png\"");
  CHECK(error.remedy.find("--pair-optional") != std::string::npos);
  options.pair_optional = true;
  CHECK(lines_of(convert_to_all(folder, options), {"seg.png"}) ==
        std::vector<std::string>{"v0|v0", "v1|v1", "v2|-", "v3|v3"});
}

TEST_CASE("--fields, --rename and --classes shape what is written", "[sources]") {
  TemporaryFolder folder;
  make_classes(folder / "train", 3, 2);
  write_text(folder / "val/c/x.jpg", "1");
  write_text(folder / "val/a/y.jpg", "2");
  auto options = options_for(folder / "train", folder / "t", "tar");
  convert(options);
  options = options_for(folder / "val", folder / "v", "tar");
  options.classes = (folder / "t").string();
  options.rename = {{"jpg", "img.bin"}};
  convert(options);
  CHECK(lines_of(folder / "v", {"cls", "img.bin"}) ==
        std::vector<std::string>{"a/y|0|2", "c/x|2|1"});
  CHECK(load_manifest(folder / "v/manifest.json").classes ==
        std::vector<std::string>{"a", "b", "c"});
  write_text(folder / "val/new/z.jpg", "3");
  options.destination = folder / "w";
  const ErrorInfo error = error_of([&] { convert(options); });
  CHECK(error.code == ErrorCode::kInvalidArgument);
  CHECK(error.cause.find("\"new\"") != std::string::npos);
  options.classes.clear();
  options.rename.clear();
  options.fields = {"cls"};
  convert(options);
  CHECK(lines_of(folder / "w", {"cls", "jpg"})[0] == "a/y|0|-");
  options.fields = {"nix"};
  options.destination = folder / "n";
  CHECK(error_of([&] { convert(options); }).path == "--fields");
}

TEST_CASE("A split is seeded by keys and stable when data are added", "[sources][split]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 4, 50);
  const auto split = [&](const std::string& name) {
    auto options = options_for(folder / "raw", folder / name, "lmdb");
    options.split = {{"train", 0.8}, {"val", 0.2}};
    options.shard_samples = 30;
    const ConvertReport report = convert(options);
    CHECK(report.shard_patterns.size() == 2);
    const auto train = keys_of((folder / name / "train").string());
    const auto val = keys_of((folder / name / "val").string());
    CHECK(train.size() + val.size() == report.samples);
    return std::pair(std::set(train.begin(), train.end()), std::set(val.begin(), val.end()));
  };
  const auto [train, val] = split("one");
  CHECK(val.size() > 20);
  CHECK(val.size() < 60);
  CHECK(verify((folder / "one/val").string(), {}).ok());
  make_classes(folder / "raw", 5, 70);
  const auto [more_train, more_val] = split("two");
  for (const std::string& key : train) CHECK(more_train.contains(key));
  for (const std::string& key : val) CHECK(more_val.contains(key));

  // A split destination is replaced and mended as any other.
  auto options = options_for(folder / "raw", folder / "two", "lmdb");
  options.split = {{"train", 0.8}, {"val", 0.2}};
  options.shard_samples = 30;
  CHECK(error_of([&] { convert(options); }).code == ErrorCode::kInvalidArgument);
  const auto before = tree(folder / "two");
  fs::remove_all(folder / "two/val/shard-000000.lmdb");
  options.resume = true;
  convert(options);
  CHECK(tree(folder / "two") == before);
  options.resume = false;
  options.force = true;
  convert(options);
  CHECK(tree(folder / "two") == before);
}
