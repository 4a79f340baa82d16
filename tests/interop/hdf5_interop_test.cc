// SPDX-License-Identifier: Apache-2.0
#include <shardmill/formats/format.h>

#include <random>

#include "tests/support/catch.h"
#include "tests/support/support.h"

namespace shardmill {
namespace {

std::string hex(Bytes bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::byte b : bytes) {
    out += kDigits[static_cast<unsigned>(b) >> 4];
    out += kDigits[static_cast<unsigned>(b) & 15];
  }
  return out;
}

std::string kind_of(const FieldView& field) {
  if (field.array == nullptr) return "bytes";
  std::string out(dtype_name(field.array->dtype));
  out += '[';
  for (std::size_t i = 0; i < field.array->shape.size(); ++i) {
    out += (i > 0 ? "," : "") + std::to_string(field.array->shape[i]);
  }
  return out + "]";
}

// The same lines as hdf5_interop.py dump prints.
std::string dump(const std::filesystem::path& path, Access access) {
  OpenShard shard(find_format("hdf5"), path, access);
  std::string out;
  SampleView view;
  for (std::uint64_t n = 0; n < shard.reader().size(); ++n) {
    shard.reader().will_need(n);
    shard.reader().read(n, view);
    for (const FieldView& field : view.fields) {
      out += hex(as_bytes(view.key)) + '\t' + std::string(field.name) + '\t' + kind_of(field) +
             '\t' + hex(field.bytes) + '\n';
    }
  }
  return out;
}

std::string python(const std::string& arguments) {
  const test::CommandResult result = test::run_command(
      "/usr/bin/python3 '" SHARDMILL_SOURCE_DIR "/tests/interop/hdf5_interop.py' " + arguments);
  INFO(result.err);
  REQUIRE(result.status == 0);
  return result.out;
}

bool have_h5py() {
  if (test::run_command("/usr/bin/python3 -c 'import h5py'").status == 0) return true;
  test::skip("python3-h5py is not installed");
  return false;
}

std::string random_bytes(std::size_t size, std::mt19937_64& random) {
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(random());
  return out;
}

}  // namespace

TEST_CASE("h5py reads what hdf5 writes", "[interop][hdf5]") {
  if (!have_h5py()) return;
  test::TemporaryFolder folder;
  const bool known = GENERATE(true, false);
  const std::size_t scale = GENERATE(10, 20'000);
  WriteOptions options;
  options.samples = known ? 40 : 0;
  options.fields = {{"cls", FieldKind::kClass, {}, true},
                    {"label", FieldKind::kClass, {}, false},
                    {"seg.png", FieldKind::kBytes, {}, true}};
  for (int i = 0; i <= static_cast<int>(DType::kComplex128); ++i) {
    options.fields.push_back({"x" + std::to_string(i),
                              FieldKind::kArray,
                              {static_cast<DType>(i), {2, scale / 5}},
                              i % 2 == 0});
  }
  std::mt19937_64 random(3);
  const auto writer = find_format("hdf5").create(folder / "a.h5", options);
  for (int n = 0; n < 40; ++n) {
    Sample sample("dir/sch\xC3\xBCssel " + std::to_string(n));
    if (n % 4 != 1) sample.add("cls", std::to_string(n - 20));
    sample.add("label", std::to_string(n * n));
    if (n % 3 != 0) sample.add("seg.png", n % 5 == 0 ? "" : random_bytes(4 * scale, random));
    for (const FieldSpec& spec : options.fields) {
      if (spec.kind != FieldKind::kArray || (spec.optional && n % 7 == 0)) continue;
      std::string elements = random_bytes(spec.array.bytes(), random);
      if (spec.array.dtype == DType::kBool) {
        for (char& c : elements) c &= 1;
      }
      sample.add(spec.name, as_bytes(elements), &spec.array);
    }
    writer->write(sample.view());
  }
  writer->close();
  const std::string ours = dump(folder / "a.h5", Access::kMap);
  REQUIRE(ours.size() > 40 * scale);
  REQUIRE((python("dump '" + (folder / "a.h5").string() + "'") == ours));
}

TEST_CASE("hdf5 reads what h5py writes", "[interop][hdf5]") {
  if (!have_h5py()) return;
  test::TemporaryFolder folder;
  python("make '" + folder.path().string() + "'");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().extension() != ".h5") continue;
    ++files;
    CAPTURE(entry.path().filename().string());
    std::filesystem::path wanted = entry.path();
    wanted.replace_extension(".txt");
    const std::string expected = test::read_text(wanted);
    REQUIRE(expected.size() > 1000);
    REQUIRE(find_format("hdf5").recognises(entry.path()));
    REQUIRE((dump(entry.path(), Access::kMap) == expected));
    REQUIRE((dump(entry.path(), Access::kRead) == expected));
  }
  REQUIRE(files == 25);
}

}  // namespace shardmill
