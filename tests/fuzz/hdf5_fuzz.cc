// SPDX-License-Identifier: Apache-2.0
// HDF5 files whose bytes were changed. The library itself walks damaged metadata of other people's
// files, so shardmill's own layout, the superblock, the chunk trees and the heap are looked at
// here.
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "tests/fuzz/fuzz.h"

namespace shardmill::fuzz {

namespace {

const Format& hdf5() { return find_format("hdf5"); }

std::string shard(bool vlen, std::size_t bytes) {
  char folder[] = "/tmp/shardmill-fuzz-XXXXXX";
  if (mkdtemp(folder) == nullptr) fail("no temporary folder");
  const std::filesystem::path path = std::filesystem::path(folder) / "s.h5";
  WriteOptions options;
  options.fields = {{"a", FieldKind::kArray, {DType::kFloat32, {2}}, false},
                    {"cls", FieldKind::kClass, {}, false},
                    {"jpg", FieldKind::kBytes, {}, true}};
  options.vlen = vlen;
  const auto writer = hdf5().create(path, options);
  const ArrayType type{DType::kFloat32, {2}};
  for (int n = 0; n < 5; ++n) {
    Sample sample("k" + std::to_string(n));
    sample.add("a", as_bytes(std::string_view("12345678")), &type);
    sample.add("cls", std::to_string(n));
    if (n != 2) sample.add("jpg", std::string(bytes, static_cast<char>('a' + n)));
    writer->write(sample.view());
  }
  writer->close();
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove_all(folder);
  return text;
}

void expect(const Error& error) {
  if (error.code() == ErrorCode::kDataLoss || error.code() == ErrorCode::kUnsupported ||
      error.code() == ErrorCode::kInvalidArgument) {
    return;
  }
  fail(error.what());
}

std::optional<std::string> by_number(const std::string& path, Access access) {
  try {
    OpenShard shard(hdf5(), path, access);
    std::string all;
    SampleView view;
    // Metadata may claim any number of rows.
    const std::uint64_t samples = std::min<std::uint64_t>(shard.reader().size(), 50);
    for (std::uint64_t n = 0; n < samples; ++n) {
      shard.reader().will_need(n);
      try {
        shard.reader().read(n, view);
      } catch (const Error& error) {
        expect(error);
        all.append("damaged").append(1, '\0');
        continue;
      }
      all.append(view.key).append(1, '\0');
      for (const FieldView& field : view.fields) {
        all.append(field.name).append(1, '\0').append(as_text(field.bytes)).append(1, '\0');
      }
    }
    return all;
  } catch (const Error& error) {
    expect(error);
    return std::nullopt;
  }
}

}  // namespace

std::vector<std::string> seeds() { return {shard(false, 40), shard(true, 40), shard(true, 5000)}; }

void run(const std::string& input) {
  const MemoryPath file(input);
  (void)hdf5().recognises(file.path());
  const auto mapped = by_number(file.path(), Access::kMap);
  if (by_number(file.path(), Access::kRead) != mapped) fail("mapped and read bytes differ");
}

// Values hold no structure: moves some changes to where headers, trees and heaps are.
void mend(std::string& input, std::uint64_t random) {
  if (random % 2 == 0) return;
  constexpr const char* kParts[] = {"TREE", "HEAP", "SNOD", "GCOL"};
  const std::size_t part = input.find(kParts[random / 2 % 4], random / 8 % 2 == 0 ? 0 : 3000);
  if (part == std::string::npos) return;
  const std::size_t at = part + random / 64 % 96;
  if (at < input.size()) input[at] = static_cast<char>(random >> 32);
}

}  // namespace shardmill::fuzz
