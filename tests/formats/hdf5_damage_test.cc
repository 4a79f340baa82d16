// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <shardmill/formats/error.h>
#include <shardmill/formats/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <random>

#include "tests/support/catch.h"
#include "tests/support/support.h"

namespace shardmill {
namespace {

using test::TemporaryFolder;

std::string random_bytes(std::size_t size, unsigned seed) {
  std::mt19937_64 generator(seed);
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(generator());
  return out;
}

// Writes a shard and returns its payload: keys, class numbers, bytes and arrays as stored.
std::vector<std::string> write_shard(const std::filesystem::path& path, unsigned count,
                                     std::size_t bytes) {
  const ArrayType type{DType::kFloat32, {bytes / 8, 2}};
  WriteOptions options;
  options.fields = {{"cls", FieldKind::kClass, {}, false},
                    {"jpg", FieldKind::kBytes, {}, false},
                    {"x", FieldKind::kArray, type, true}};
  std::vector<std::string> payload(4);
  const auto writer = find_format("hdf5").create(path, options);
  for (unsigned n = 0; n < count; ++n) {
    const std::string jpg = random_bytes(bytes + n, n);
    std::string elements = random_bytes(type.bytes(), 1000 + n);
    Sample sample("key " + std::to_string(n));
    sample.add("jpg", jpg);
    const std::int64_t number = 1'000'000 + static_cast<std::int64_t>(n) * 77;
    sample.add("cls", std::to_string(number));
    if (n % 4 == 3) {
      elements.assign(elements.size(), '\0');
    } else {
      sample.add("x", as_bytes(elements), &type);
    }
    writer->write(sample.view());
    payload[0] += "key " + std::to_string(n);
    payload[1].append(reinterpret_cast<const char*>(&number), sizeof number);
    payload[2] += jpg;
    payload[3] += elements;
  }
  writer->close();
  return payload;
}

std::string dump(const std::filesystem::path& path) {
  OpenShard shard(find_format("hdf5"), path);
  std::string out;
  SampleView view;
  for (std::uint64_t n = 0; n < shard.reader().size(); ++n) {
    shard.reader().read(n, view);
    out += std::string(view.key) + '\n';
    for (const FieldView& field : view.fields) {
      out += std::string(field.name) + '=' + std::string(as_text(field.bytes)) + '\n';
    }
  }
  return out;
}

// What reading `path` gives: its dump, or "error".
std::string dump_or_error(const std::filesystem::path& path) {
  try {
    return dump(path);
  } catch (const Error& error) {
    return error.info().path == path.string() ? "error" : "an error without its path";
  }
}

// Sends standard error to a file while it exists; the library must print nothing there.
class StderrCapture {
 public:
  explicit StderrCapture(const std::filesystem::path& file) : file_(file), saved_(dup(2)) {
    const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(fd, 2);
    close(fd);
  }
  ~StderrCapture() { restore(); }
  std::string text() {
    restore();
    return test::read_text(file_);
  }

 private:
  void restore() {
    if (saved_ < 0) return;
    dup2(saved_, 2);
    close(saved_);
    saved_ = -1;
  }
  std::filesystem::path file_;
  int saved_;
};

// Flips one bit of a byte at `at` while it exists.
class Flip {
 public:
  Flip(int fd, std::size_t at, unsigned bit) : fd_(fd), at_(static_cast<off_t>(at)) {
    REQUIRE(pread(fd, &old_, 1, at_) == 1);
    put(static_cast<unsigned char>(old_ ^ (1u << bit)));
  }
  ~Flip() { put(old_); }

 private:
  void put(unsigned char byte) {
    if (pwrite(fd_, &byte, 1, at_) != 1) std::abort();
  }
  int fd_;
  off_t at_;
  unsigned char old_ = 0;
};

struct Counts {
  int same = 0;
  int refused = 0;
};

Counts flip_all(const std::filesystem::path& path, const std::vector<std::size_t>& positions) {
  const std::string good = dump(path);
  const int fd = open(path.c_str(), O_RDWR);
  Counts counts;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const unsigned bit = static_cast<unsigned>(i * 5 % 8);
    CAPTURE(positions[i], bit);
    const Flip flip(fd, positions[i], bit);
    const std::string got = dump_or_error(path);
    REQUIRE((got == good || got == "error"));
    ++(got == good ? counts.same : counts.refused);
  }
  close(fd);
  return counts;
}

}  // namespace

TEST_CASE("hdf5 refuses files that were cut off", "[formats][hdf5]") {
  TemporaryFolder folder;
  const std::size_t bytes = GENERATE(80, 400'000);
  write_shard(folder / "whole.h5", 8, bytes);
  const std::string whole = test::read_text(folder / "whole.h5");
  for (std::size_t part = 0; part < 64; ++part) {
    const std::size_t size = whole.size() * part / 64;
    CAPTURE(size, whole.size());
    test::write_text(folder / "cut.h5", std::string_view(whole).substr(0, size));
    try {
      dump(folder / "cut.h5");
      FAIL("no error");
    } catch (const Error& error) {
      REQUIRE(error.code() == ErrorCode::kDataLoss);
      REQUIRE(error.info().path == (folder / "cut.h5").string());
      if (size >= 64) {
        REQUIRE(error.info().cause == "truncated: " + std::to_string(size) + " bytes are there, " +
                                          std::to_string(whole.size()) + " are expected");
        REQUIRE_FALSE(error.info().remedy.empty());
      }
    }
  }
}

TEST_CASE("hdf5 finds flipped bytes of structure in a small shard", "[formats][hdf5]") {
  TemporaryFolder folder;
  const auto payload = write_shard(folder / "a.h5", 12, 80);
  const std::string file = test::read_text(folder / "a.h5");
  std::vector<bool> is_payload(file.size(), false);
  for (const std::string& bytes : payload) {
    const std::size_t at = file.find(bytes);
    REQUIRE(at != std::string::npos);
    std::fill_n(is_payload.begin() + static_cast<std::ptrdiff_t>(at), bytes.size(), true);
  }
  std::vector<std::size_t> positions;
  for (std::size_t at = 0; at < file.size(); ++at) {
    // Of the long runs of zeros between the parts one in eight will do.
    const bool used = file[at] != 0 || at % 8 == 0;
    if (used && !is_payload[at]) positions.push_back(at);
  }
  StderrCapture capture(folder / "stderr");
  const Counts counts = flip_all(folder / "a.h5", positions);
  REQUIRE(capture.text() == "");
  REQUIRE(counts.refused > 300);
}

TEST_CASE("hdf5 finds flipped bytes in chunk trees and headers", "[formats][hdf5]") {
  TemporaryFolder folder;
  write_shard(folder / "a.h5", 12, 500'000);
  const std::string file = test::read_text(folder / "a.h5");
  std::vector<std::size_t> positions;
  int trees = 0;
  for (std::size_t at = file.find("TREE"); at < file.size(); at = file.find("TREE", at + 4)) {
    if (file[at + 4] != 1) continue;
    ++trees;
    for (std::size_t i = 0; i < 160; ++i) positions.push_back(at + i);
  }
  REQUIRE(trees == 2);
  const Counts counts = flip_all(folder / "a.h5", positions);
  REQUIRE(counts.refused > 100);
}

TEST_CASE("hdf5 shows flipped payload in that value alone", "[formats][hdf5]") {
  TemporaryFolder folder;
  const auto payload = write_shard(folder / "a.h5", 12, 80);
  const std::string file = test::read_text(folder / "a.h5");
  const std::size_t at = file.find(payload[2]) + 100;  // in the second jpg
  const std::string good = dump(folder / "a.h5");
  const int fd = open((folder / "a.h5").c_str(), O_RDWR);
  {
    const Flip flip(fd, at, 2);
    const std::string got = dump(folder / "a.h5");
    REQUIRE(got.size() == good.size());
    std::size_t differences = 0;
    for (std::size_t i = 0; i < got.size(); ++i) differences += got[i] != good[i];
    REQUIRE(differences == 1);
  }
  close(fd);
}

TEST_CASE("hdf5 names the sample whose offsets are damaged", "[formats][hdf5]") {
  // A file of h5py has no structure hash, so that the offsets themselves are checked.
  TemporaryFolder folder;
  const std::string path = (folder / "a.h5").string();
  const auto made = test::run_command(
      "/usr/bin/python3 -c 'import h5py, numpy\n"
      "with h5py.File(\"" +
      path +
      "\", \"w\") as f:\n"
      "  f.attrs[\"shardmill_version\"] = 1\n"
      "  f[\"__key__/data\"] = numpy.frombuffer(b\"k0k1k2\", \"u1\")\n"
      "  f[\"__key__/offsets\"] = numpy.array([0, 2, 4, 6], \"u8\")\n"
      "  f[\"jpg/data\"] = numpy.zeros(30, \"u1\")\n"
      "  f[\"jpg/offsets\"] = numpy.array([0, 10, 5, 30], \"u8\")'");
  if (made.status != 0) return test::skip("python3-h5py is not installed");
  OpenShard shard(find_format("hdf5"), path);
  SampleView view;
  shard.reader().read(0, view);
  shard.reader().will_need(1);
  try {
    shard.reader().read(1, view);
    FAIL("no error");
  } catch (const Error& error) {
    REQUIRE(error.code() == ErrorCode::kDataLoss);
    REQUIRE(error.info().place == "sample \"k1\" field \"jpg\"");
  }
  shard.reader().read(2, view);
  REQUIRE(view.fields[0].bytes.size() == 25);
}

TEST_CASE("hdf5 refuses a damaged index", "[formats][hdf5]") {
  TemporaryFolder folder;
  write_shard(folder / "a.h5", 12, 80);
  const Format& format = find_format("hdf5");
  const std::vector<std::byte> good = format.build_index(folder / "a.h5", Access::kAuto);
  for (std::size_t size = 0; size < good.size(); ++size) {
    const std::vector<std::byte> cut(good.begin(), good.begin() + static_cast<long>(size));
    REQUIRE_THROWS_AS(format.open(folder / "a.h5", cut, Access::kAuto), Error);
  }
  // Whatever is flipped, reading stays inside the index and the file.
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::vector<std::byte> bad = good;
    bad[at] ^= std::byte{static_cast<unsigned char>(1u << (at % 8))};
    try {
      const auto reader = format.open(folder / "a.h5", bad, Access::kAuto);
      SampleView view;
      for (std::uint64_t n = 0; n < std::min<std::uint64_t>(reader->size(), 12); ++n) {
        reader->will_need(n);
        reader->read(n, view);
      }
    } catch (const Error&) {
    }
  }
}

TEST_CASE("hdf5 reads files that others have locked, and twice at once", "[formats][hdf5]") {
  TemporaryFolder folder;
  write_shard(folder / "a.h5", 12, 80);
  const int fd = open((folder / "a.h5").c_str(), O_RDONLY);
  REQUIRE(flock(fd, LOCK_EX) == 0);
  OpenShard one(find_format("hdf5"), folder / "a.h5");
  OpenShard two(find_format("hdf5"), folder / "a.h5");
  SampleView view;
  one.reader().read(3, view);
  REQUIRE(view.key == "key 3");
  two.reader().read(11, view);
  REQUIRE(view.key == "key 11");
  REQUIRE_NOTHROW(find_format("hdf5").describe(folder / "a.h5", true));
  close(fd);
}

TEST_CASE("hdf5 says what is wrong with the broken files of case 17", "[formats][hdf5]") {
  TemporaryFolder folder;
  if (!test::make_case("17", folder.path())) return test::skip("no collection of cases");
  const std::filesystem::path cases = folder / "17";
  const auto error_of = [&](const char* name) {
    try {
      dump(cases / name);
    } catch (const Error& error) {
      REQUIRE(error.code() == ErrorCode::kDataLoss);
      return error.info();
    }
    FAIL("no error for " << name);
    return ErrorInfo{};
  };
  REQUIRE(error_of("cut.h5").cause == "truncated: 327816 bytes are there, 328816 are expected");
  const ErrorInfo latest = error_of("killed_latest.h5");
  REQUIRE(latest.cause == "not closed by its writer");
  REQUIRE(latest.remedy.find("h5clear -s") != std::string::npos);
  REQUIRE(error_of("killed_noflush.h5").cause.starts_with("not closed by its writer"));
  REQUIRE_FALSE(dump(cases / "whole.h5").empty());
}

}  // namespace shardmill
