// SPDX-License-Identifier: Apache-2.0
// HDF5 files whose bytes were changed. The library itself walks damaged metadata of other people's
// files, so shardmill's own layout, the superblock, the chunk trees and the heap are looked at
// here; and the filters that are taken off without it.
#include <hdf5.h>
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

// A vector of int32 in chunks of 8, each stored as `bytes` and marked with `filter`, or through the
// library's own filters if there are none.
void add_numbers(hid_t file, const char* name, H5Z_filter_t filter, const std::string& bytes) {
  constexpr hsize_t kRows = 24;
  constexpr hsize_t kChunk = 8;
  const hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(list, 1, &kChunk);
  if (filter != 0) {
    H5Pset_filter(list, filter, H5Z_FLAG_OPTIONAL, 0, nullptr);
  } else {
    H5Pset_fletcher32(list);
    H5Pset_shuffle(list);
    H5Pset_deflate(list, 6);
  }
  const hid_t space = H5Screate_simple(1, &kRows, nullptr);
  const hid_t data = H5Dcreate2(file, name, H5T_STD_I32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
  int values[kRows];
  for (int i = 0; i < static_cast<int>(kRows); ++i) values[i] = i / 3;
  if (filter == 0) H5Dwrite(data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  for (hsize_t at = 0; filter != 0 && at < kRows; at += kChunk) {
    H5Dwrite_chunk(data, H5P_DEFAULT, 0, &at, bytes.size(), bytes.data());
  }
  H5Dclose(data);
  H5Sclose(space);
  H5Pclose(list);
}

// Strings of varying length and a compound.
void add_structures(hid_t file) {
  constexpr hsize_t kRows = 24;
  const hid_t space = H5Screate_simple(1, &kRows, nullptr);
  const hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, H5T_VARIABLE);
  const char* words[kRows];
  for (hsize_t i = 0; i < kRows; ++i) words[i] = i % 2 == 0 ? "word" : "";
  hid_t data = H5Dcreate2(file, "text", text, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(data, text, H5S_ALL, H5S_ALL, H5P_DEFAULT, words);
  H5Dclose(data);
  const hid_t pair = H5Tcreate(H5T_COMPOUND, 8);
  H5Tinsert(pair, "x", 0, H5T_STD_I32BE);
  H5Tinsert(pair, "y", 4, H5T_IEEE_F32LE);
  const std::string zeros(8 * kRows, '\0');
  data = H5Dcreate2(file, "pair", pair, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(data, pair, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros.data());
  H5Dclose(data);
  H5Tclose(pair);
  H5Tclose(text);
  H5Sclose(space);
}

// The library makes no dataset with LZF (32000) itself, only with a filter that it does not know:
// its number is exchanged in the file.
constexpr H5Z_filter_t kUnknownFilter = 32001;
void make_lzf(std::string& file) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = file.find("\x01\x7d", at)) != std::string::npos; ++found) {
    file[at] = '\0';
  }
  if (found != 1) fail("the filter's number is not where it should be");
}

// A file of somebody else with every filter that is read without the library, and rows that need
// it.
std::string foreign(bool structures) {
  char path[] = "/tmp/shardmill-fuzz-XXXXXX";
  const int fd = mkstemp(path);
  if (fd < 0) fail("no temporary file");
  close(fd);
  const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  add_numbers(file, "deflate", 0, {});
  // One run of 32 literal bytes is what LZF can say at least.
  add_numbers(file, "lzf", kUnknownFilter, "\x1f" + std::string(32, 'z'));
  if (structures) add_structures(file);
  H5Fclose(file);
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  unlink(path);
  make_lzf(text);
  return text;
}

// libhdf5 asks for the real path of what it opens, which files in memory do not have.
class DiskFile {
 public:
  explicit DiskFile(const std::string& bytes) {
    const int fd = mkstemp(path_);
    if (fd < 0 || write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      fail("cannot write a temporary file");
    }
    close(fd);
  }
  ~DiskFile() { unlink(path_); }
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/shardmill-fuzz-XXXXXX";
};

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

std::vector<std::string> seeds() {
  std::vector<std::string> all = {shard(false, 40), shard(true, 40), shard(true, 5000),
                                  foreign(false), foreign(true)};
  for (const std::string& seed : all) {
    const auto read = by_number(DiskFile(seed).path(), Access::kMap);
    if (!read || read->find("damaged") != std::string::npos) fail("a seed is not read");
  }
  return all;
}

bool run(const std::string& input) {
  const DiskFile file(input);
  (void)hdf5().recognises(file.path());
  const auto mapped = by_number(file.path(), Access::kMap);
  if (by_number(file.path(), Access::kRead) != mapped) fail("mapped and read bytes differ");
  return mapped.has_value();
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
