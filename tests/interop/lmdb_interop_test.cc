// SPDX-License-Identifier: Apache-2.0
// LMDB shards and Python: what we write py-lmdb and msgpack read byte for byte, and what they
// write in our layout we read.
#include <nlohmann/json.hpp>

#include "tests/formats/lmdb_support.h"

using namespace shardmill;
using namespace shardmill::test;
using nlohmann::json;

namespace {

const Format& format() { return find_format("lmdb"); }

std::string hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

// Runs `script` with `argument` as sys.argv[1]; false if Python or its modules are not there.
bool run_python(const TemporaryFolder& folder, std::string_view script, const fs::path& argument,
                std::string& out) {
  const std::string python = "/usr/bin/python3 ";
  if (run_command(python + "-c 'import lmdb, msgpack, numpy'").status != 0) {
    skip("/usr/bin/python3 with lmdb, msgpack and numpy is absent");
    return false;
  }
  write_text(folder / "script.py", script);
  const CommandResult result =
      run_command(python + (folder / "script.py").string() + " " + argument.string());
  INFO(result.err);
  REQUIRE(result.status == 0);
  out = result.out;
  return true;
}

std::vector<Sample> samples() {
  std::vector<Sample> samples;
  samples.emplace_back("cat/1").add("jpg", random_bytes(70'000, 1));
  samples.back().add("cls", "0");
  samples.emplace_back("with space and 猫").add("seg.png", random_bytes(300, 2));
  samples.emplace_back("not utf-8 \xff").add("empty", "");
  samples.emplace_back("no fields");
  Sample& many = samples.emplace_back(std::string(70'000, 'k'));
  for (int i = 0; i < 40; ++i) many.add("f" + std::to_string(i), random_bytes(3, 3));
  const std::vector<float> numbers{1.5F, -2.0F, 3.25F, 0.0F, 1e9F, 6.0F};
  const ArrayType type{DType::kFloat32, {2, 3}};
  samples.emplace_back("array").add("npy", std::as_bytes(std::span(numbers)), &type);
  return samples;
}

// Prints [key, {name: value}] per sample, everything in hexadecimal, and the description.
constexpr std::string_view kRead = R"(
import json, lmdb, msgpack, sys
def hx(x): return (x if isinstance(x, bytes) else x.encode()).hex()
out = {"samples": [], "types": []}
with lmdb.open(sys.argv[1], readonly=True, lock=False).begin() as txn:
    for key, value in txn.cursor():
        if key == b"__shardmill__":
            out["description"] = json.loads(value)
            continue
        assert key == b"%012d" % len(out["samples"])
        sample = msgpack.unpackb(value)
        assert next(iter(sample)) == "__key__"
        assert msgpack.packb(sample) == value  # the same bytes that Python would write
        name = sample.pop("__key__")
        out["types"].append(type(name).__name__)
        assert all(type(v) is bytes for v in sample.values())
        out["samples"].append([hx(name), {hx(k): hx(v) for k, v in sample.items()}])
        if "npy" in sample:
            import io, numpy
            array = numpy.load(io.BytesIO(sample["npy"]))
            out["array"] = [str(array.dtype), array.shape, array.ravel().tolist()]
print(json.dumps(out))
)";

constexpr std::string_view kWrite = R"(
import io, json, lmdb, msgpack, numpy, sys
buffer = io.BytesIO()
numpy.save(buffer, numpy.arange(6, dtype="int16").reshape(2, 3))
samples = [("cat/1", {"cls": b"7", "jpg": bytes(range(256)) * 300}),
           ("ä/猫", {"txt": "café", "b": b"", "a": b"x"}),
           (b"\xff\xfe", {"npy": buffer.getvalue()}),
           ("many", {"f%03d" % i: b"%d" % i for i in range(300)})]
env = lmdb.open(sys.argv[1], map_size=1 << 24, subdir=not sys.argv[1].endswith(".mdb"))
with env.begin(write=True) as txn:
    for n, (key, fields) in enumerate(samples):
        txn.put(b"%012d" % n, msgpack.packb({"__key__": key, **fields}), append=True)
    txn.put(b"__shardmill__", json.dumps({"version": 1, "count": len(samples)}).encode())
env.close()
)";

}  // namespace

TEST_CASE("Python reads the LMDB shards that we write", "[interop][lmdb]") {
  TemporaryFolder folder;
  const fs::path path = folder / "shard-000000.lmdb";
  const std::vector<Sample> written = samples();
  write_all(*format().create(path, {}), written);
  std::string out;
  if (!run_python(folder, kRead, path, out)) return;

  json expected = json::array();
  for (const Sample& sample : written) {
    json fields = json::object();
    const SampleView view = sample.view();
    for (const FieldView& field : view.fields) {
      std::string bytes = field.array != nullptr ? npy_header(*field.array) : std::string();
      bytes += as_text(field.bytes);
      fields[hex(field.name)] = hex(bytes);
    }
    expected.push_back({hex(view.key), fields});
  }
  const json read = json::parse(out);
  CHECK((read["samples"] == expected));
  CHECK(read["types"] == json({"str", "str", "bytes", "str", "str", "str"}));
  CHECK(read["array"] == json({"float32", {2, 3}, {1.5, -2.0, 3.25, 0.0, 1e9, 6.0}}));
  CHECK(read["description"]["count"] == written.size());
  CHECK(read["description"]["version"] == 1);
  CHECK(read["description"]["fields"].size() == 45);
}

TEST_CASE("We read the LMDB shards that Python writes", "[interop][lmdb]") {
  TemporaryFolder folder;
  for (const char* name : {"dir.lmdb", "single.mdb"}) {
    const fs::path path = folder / name;
    std::string out;
    if (!run_python(folder, kWrite, path, out)) return;
    OpenShard shard(path);
    CHECK(shard.format().name() == "lmdb");
    CHECK(shard.reader().info().layout == "shardmill");
    REQUIRE(shard.reader().size() == 4);
    SampleView sample;
    shard.reader().read(0, sample);
    CHECK(sample.key == "cat/1");
    CHECK(as_text(sample.find("cls")->bytes) == "7");
    REQUIRE(sample.find("jpg")->bytes.size() == 76'800);
    CHECK(sample.find("jpg")->bytes[76'799] == std::byte{255});
    shard.reader().read(1, sample);
    CHECK(dump(sample) == "ä/猫|a=1:x|b=0:|txt=5:café");
    shard.reader().read(2, sample);
    CHECK(sample.key == "\xff\xfe");
    const NpyView array = parse_npy(sample.find("npy")->bytes, {}, {});
    CHECK(array.type == ArrayType{DType::kInt16, {2, 3}});
    shard.reader().read(3, sample);
    CHECK(sample.fields.size() == 300);
    CHECK(as_text(sample.find("f299")->bytes) == "299");
  }
}
