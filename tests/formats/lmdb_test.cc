// SPDX-License-Identifier: Apache-2.0
// Shards that shardmill writes: layout, round trip, equal bytes, growth, full disk.
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "formats/lmdb/writer.h"
#include "tests/formats/lmdb_support.h"

using namespace shardmill;
using namespace shardmill::test;

namespace {

const Format& format() { return find_format("lmdb"); }

std::vector<Sample> odd_samples() {
  std::vector<Sample> samples;
  const auto add = [&](std::string key) -> Sample& { return samples.emplace_back(std::move(key)); };
  add("cat/1").add("jpg", "JPEG");
  samples.back().add("cls", "0");
  add("no fields");
  add("empty field").add("txt", "");
  add("katze/für elise 猫").add("txt", "ü");
  add("bad utf-8 \xff\xc0\xaf").add(std::string("odd\xed\xa0\x80"), "x");
  add("large").add("bin", random_bytes(300'000, 1));
  add("just over a page").add("bin", random_bytes(2'030, 2));
  Sample& many = add("many fields " + std::string(300, 'k'));
  for (int i = 0; i < 70; ++i) many.add("field" + std::to_string(i), std::to_string(i));
  many.add(std::string(40, 'n'), random_bytes(65'536, 3));
  return samples;
}

// Runs `action` in a child; returns what it returned, or "signal N".
template <typename Action>
std::string in_child(Action&& action) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    std::string text;
    try {
      text = action();
    } catch (const std::exception& error) {
      text = std::string("exception: ") + error.what();
    }
    _exit(::write(ends[1], text.data(), text.size()) < 0 ? 1 : 0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status)) : text;
}

}  // namespace

TEST_CASE("lmdb shards give back odd samples", "[formats][lmdb]") {
  TemporaryFolder folder;
  const fs::path path = folder / "shard-000000.lmdb";
  const auto writer = format().create(path, {});
  CHECK_FALSE(fs::exists(path));
  const std::vector<std::string> expected = write_all(*writer, odd_samples());
  CHECK(format().recognises(path));
  CHECK(format().recognises(path / "data.mdb"));
  CHECK(format().data_file(path) == path / "data.mdb");
  for (const Access access : {Access::kMap, Access::kRead, Access::kAuto}) {
    CHECK(dump_all(format(), path, access) == expected);
    CHECK(dump_all(format(), path / "data.mdb", access) == expected);
  }
  OpenShard shard(format(), path);
  CHECK(shard.reader().info().layout == "shardmill");
  // Nothing but the data file, and nothing beside the shard.
  CHECK(std::distance(fs::directory_iterator(path), {}) == 1);
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("lmdb shards hold the documented bytes", "[formats][lmdb]") {
  TemporaryFolder folder;
  const auto writer = format().create(folder / "s.lmdb", {});
  const FieldView fields[] = {{"jpg", as_bytes("JJ"), nullptr}, {"cls", as_bytes("7"), nullptr}};
  writer->write({"k\xc3\xa4", fields});
  const std::uint16_t numbers[] = {1, 2, 3};
  const ArrayType type{DType::kUInt16, {3}};
  const FieldView array[] = {{"npy", std::as_bytes(std::span(numbers)), &type}};
  writer->write({"\xff", array});
  writer->close();

  const Entries entries = read_with_liblmdb(folder / "s.lmdb" / "data.mdb");
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].first == "000000000000");
  CHECK(entries[0].second ==
        "\x83\xa7__key__\xa3k\xc3\xa4\xa3"
        "cls\xc4\x01"
        "7\xa3jpg\xc4\x02JJ");
  CHECK(entries[1].first == "000000000001");
  std::string npy = npy_header(type);
  npy += as_text(std::as_bytes(std::span(numbers)));
  CHECK(entries[1].second == std::string("\x82\xa7__key__\xc4\x01\xff\xa3npy\xc4") +
                                 static_cast<char>(npy.size()) + npy);
  CHECK(entries[2].first == "__shardmill__");
  CHECK(entries[2].second == R"({"version":1,"count":2,"fields":["cls","jpg","npy"]})");
}

TEST_CASE("lmdb shards without samples are shards", "[formats][lmdb]") {
  TemporaryFolder folder;
  format().create(folder / "s.lmdb", {})->close();
  OpenShard shard(format(), folder / "s.lmdb");
  CHECK(shard.reader().size() == 0);
  CHECK(shard.reader().info().layout == "shardmill");
}

TEST_CASE("lmdb writer gives equal bytes for equal samples", "[formats][lmdb]") {
  TemporaryFolder folder;
  const auto bytes_of = [&](const std::string& name, int garbage) {
    mallopt(M_PERTURB, garbage);
    const auto writer = lmdb::create_writer(folder / name);
    std::vector<Sample> samples = odd_samples();
    for (std::uint32_t i = 0; i < 400; ++i) {
      samples.emplace_back("s" + std::to_string(i)).add("bin", random_bytes(i * 37 % 9001, i));
    }
    write_all(*writer, samples);
    mallopt(M_PERTURB, 0);
    return read_text(folder / name / "data.mdb");
  };
  const std::string first = bytes_of("a.lmdb", 0x00);
  CHECK((bytes_of("b.lmdb", 0xA5) == first));
  CHECK((bytes_of("c.lmdb", 0x5A) == first));
}

// No map has to be guessed, and none is larger than the data: CASES.md rows 8 and 50.
TEST_CASE("lmdb writer needs no map size", "[formats][lmdb]") {
  TemporaryFolder folder;
  const auto writer = lmdb::create_writer(folder / "s.lmdb");
  std::vector<Sample> samples;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    samples.emplace_back("n" + std::to_string(i)).add("bin", random_bytes(32 << 10, i));
  }
  const std::vector<std::string> expected = write_all(*writer, samples);
  CHECK((dump_all(format(), folder / "s.lmdb") == expected));
  const fs::path file = folder / "s.lmdb" / "data.mdb";
  CHECK(read_with_liblmdb(file).size() == 1001);
  const auto described = nlohmann::json::parse(format().describe(folder / "s.lmdb", false));
  CHECK(described["map_size"] == fs::file_size(file));
  CHECK(fs::file_size(file) < 1200 * (32 << 10));
}

TEST_CASE("lmdb writer leaves nothing unless it is closed", "[formats][lmdb]") {
  TemporaryFolder folder;
  const auto holds = [&] { return std::distance(fs::directory_iterator(folder.path()), {}); };
  {
    const auto writer = format().create(folder / "s.lmdb", {});
    writer->write(Sample("a").view());
    CHECK(holds() == 1);
  }
  CHECK(holds() == 0);
  // A later run takes over what a killed one left, and replaces an older shard.
  write_text(folder / ".s.lmdb.shardmill-partial/data.mdb", "rubbish");
  for (const char* text : {"one", "two"}) {
    const auto writer = format().create(folder / "s.lmdb", {});
    std::vector<Sample> samples;
    samples.emplace_back("a").add("txt", text);
    const std::vector<std::string> expected = write_all(*writer, samples);
    CHECK(dump_all(format(), folder / "s.lmdb") == expected);
  }
  CHECK(holds() == 1);
}

TEST_CASE("lmdb writer touches no other directory or file", "[formats][lmdb]") {
  TemporaryFolder folder;
  write_text(folder / "photos/cat.jpg", "precious");
  CHECK(error_of([&] { format().create(folder / "photos", {}); }).code ==
        ErrorCode::kInvalidArgument);
  CHECK(error_of([&] { format().create(folder / "photos/cat.jpg", {}); }).code ==
        ErrorCode::kInvalidArgument);
  const ErrorInfo missing = error_of([&] { format().create(folder / "no/s.lmdb", {}); });
  CHECK(missing.code == ErrorCode::kNotFound);
  CHECK(missing.path == (folder / "no/s.lmdb").string());
  CHECK(read_text(folder / "photos/cat.jpg") == "precious");
}

TEST_CASE("lmdb writer refuses what it cannot carry and goes on", "[formats][lmdb]") {
  TemporaryFolder folder;
  const auto writer = format().create(folder / "s.lmdb", {});
  const auto refusal = [&](std::string_view key, std::vector<FieldView> fields) {
    return error_of([&] { writer->write({key, fields}); });
  };
  const FieldView text{"txt", as_bytes("x"), nullptr};
  CHECK(refusal("", {text}).code == ErrorCode::kInvalidArgument);
  CHECK(refusal(std::string_view("a\0b", 3), {text}).code == ErrorCode::kInvalidArgument);
  CHECK(refusal("a", {text, text}).code == ErrorCode::kInvalidArgument);
  CHECK(refusal("a", {{"__key__", as_bytes("x"), nullptr}}).code == ErrorCode::kInvalidArgument);

  const std::size_t huge = std::size_t{1} << 32;  // address space only, never touched
  void* map = mmap(nullptr, huge, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(map != MAP_FAILED);
  const ErrorInfo large =
      refusal("big", {{"bin", {static_cast<const std::byte*>(map), huge}, nullptr}});
  munmap(map, huge);
  CHECK(large.code == ErrorCode::kUnsupported);
  CHECK(large.place == "sample \"big\"");

  writer->write({"good", {&text, 1}});
  writer->close();
  CHECK(dump_all(format(), folder / "s.lmdb") == std::vector<std::string>{"good|txt=1:x"});
  CHECK(error_of([&] { writer->write({"late", {}}); }).code == ErrorCode::kInternal);
}

TEST_CASE("lmdb writer reports a full disk", "[formats][lmdb]") {
  TemporaryFolder folder;
  const fs::path mount_point = folder / "disk";
  fs::create_directory(mount_point);
  // A write that finds some room is cut short first; one that finds none fails at once.
  for (const std::size_t sample_bytes : {700'001, 4'000}) {
    const std::string outcome = in_child([&]() -> std::string {
      if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) ||
          mount("tmpfs", mount_point.c_str(), "tmpfs", 0, "size=4m") != 0) {
        return "no mount";
      }
      try {
        const auto writer = lmdb::create_writer(mount_point / "s.lmdb");
        Sample sample("k");
        sample.add("bin", random_bytes(sample_bytes, 1));
        for (int i = 0; i < 4000; ++i) writer->write(sample.view());
        writer->close();
      } catch (const Error& error) {
        return fs::is_empty(mount_point) ? std::string(error.what()) : "left something behind";
      }
      return "no error";
    });
    if (outcome == "no mount") return skip("mounting a small tmpfs is not permitted here");
    CHECK(outcome == (mount_point / "s.lmdb").string() +
                         ": cannot write: no space left on device; free space and run again");
  }
}

TEST_CASE("lmdb samples stay valid while others are announced", "[formats][lmdb]") {
  TemporaryFolder folder;
  const auto writer = format().create(folder / "s.lmdb", {});
  const std::vector<std::string> expected = write_all(*writer, odd_samples());
  for (const Access access : {Access::kMap, Access::kRead}) {
    OpenShard shard(format(), folder / "s.lmdb", access);
    SampleView sample;
    shard.reader().read(5, sample);
    for (std::uint64_t n = 0; n < 1000; ++n) shard.reader().will_need(n);  // also beyond the end
    CHECK((dump(sample) == expected[5]));
  }
}
