// SPDX-License-Identifier: Apache-2.0
// What every format must do, whichever it is: runs on all_formats().
#include <sys/wait.h>
#include <unistd.h>

#include "tests/formats/conformance_support.h"

using namespace shardmill;
using namespace shardmill::test;

TEST_CASE("A written shard reads back in any order", "[formats][conformance]") {
  FOR_EACH_FORMAT(format) {
    TemporaryFolder folder;
    const fs::path path = shard_path(folder.path(), *format);
    const std::vector<Sample> samples = odd_samples();
    write(*format, path, samples);
    CHECK(format->recognises(path));
    for (const Access access : {Access::kMap, Access::kRead, Access::kAuto}) {
      OpenShard shard(path, access);
      CHECK(&shard.format() == format);
      Reader& reader = shard.reader();
      REQUIRE(reader.size() == samples.size());
      const Samples all = read_all(reader);
      CHECK((all == expected(samples)));  // too long to print
      SampleView view;
      std::vector<std::string> backwards;
      for (std::uint64_t n = reader.size(); n-- > 0;) {
        reader.read(n, view);
        backwards.emplace_back(view.key);
        CHECK((fields_of(view) == all.at(backwards.back())));
        CHECK(std::is_sorted(view.fields.begin(), view.fields.end(),
                             [](const auto& a, const auto& b) { return a.name < b.name; }));
      }
      reader.read(reader.size() - 1, view);
      CHECK(view.key == backwards.front());
      CHECK(view.find("no such field") == nullptr);
    }
  }
}

TEST_CASE("Equal samples have equal digests in every format", "[formats][conformance]") {
  const std::vector<Sample> samples = odd_samples();
  SampleHasher hasher;
  Digest source;
  for (const Sample& sample : samples) source += hasher.hash(sample.view());
  FOR_EACH_FORMAT(format) {
    TemporaryFolder folder;
    const fs::path path = shard_path(folder.path(), *format);
    write(*format, path, samples);
    OpenShard shard(*format, path);
    CHECK(digest_of(shard.reader()).hex() == source.hex());
  }
}

TEST_CASE("Formats other than folder keep the order of writing", "[formats][conformance]") {
  FOR_EACH_FORMAT(format) {
    TemporaryFolder folder;
    const fs::path path = shard_path(folder.path(), *format);
    std::vector<Sample> samples;
    for (const char* key : {"c", "a", "d", "b"}) samples.push_back(make(key, {{"txt", key}}));
    write(*format, path, samples);
    OpenShard shard(*format, path);
    std::string order;
    SampleView view;
    for (std::uint64_t n = 0; n < shard.reader().size(); ++n) {
      shard.reader().read(n, view);
      order += view.key;
    }
    CHECK(order == (format->name() == "folder" ? "abcd" : "cadb"));
  }
}

TEST_CASE("One index serves several readers", "[formats][conformance]") {
  FOR_EACH_FORMAT(format) {
    TemporaryFolder folder;
    const fs::path path = shard_path(folder.path(), *format);
    const std::vector<Sample> samples = small_samples();
    write(*format, path, samples);
    const auto index = format->build_index(path, Access::kAuto);
    CHECK(index == format->build_index(path, Access::kRead));
    const auto one = format->open(path, index, Access::kMap);
    const auto two = format->open(path, index, Access::kRead);
    SampleView first;
    one->read(0, first);
    CHECK(read_all(*two) == expected(samples));
    CHECK(fields_of(first) == expected(samples).at(std::string(first.key)));
  }
}

TEST_CASE("An empty shard is a shard", "[formats][conformance]") {
  FOR_EACH_FORMAT(format) {
    TemporaryFolder folder;
    const fs::path path = shard_path(folder.path(), *format);
    write(*format, path, {});
    CHECK(format->recognises(path));
    for (const Access access : {Access::kMap, Access::kRead}) {
      OpenShard shard(*format, path, access);
      CHECK(shard.reader().size() == 0);
      shard.reader().will_need(0);
    }
  }
}

TEST_CASE("A writer that is not closed leaves nothing", "[formats][conformance]") {
  FOR_EACH_FORMAT(format) {
    TemporaryFolder folder;
    const std::vector<Sample> samples = odd_samples();
    {
      const auto writer = format->create(shard_path(folder.path(), *format), options_for(samples));
      for (const Sample& sample : samples) writer->write(sample.view());
    }
    CHECK(names_in(folder.path()).empty());
  }
}

TEST_CASE("A writer replaces what a dead one left", "[formats][conformance]") {
  FOR_EACH_FORMAT(format) {
    TemporaryFolder folder;
    const fs::path path = shard_path(folder.path(), *format);
    const std::vector<Sample> samples = small_samples();
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const auto writer = format->create(path, options_for(samples));
      for (int i = 0; i < 5; ++i) writer->write(samples[static_cast<std::size_t>(i)].view());
      _exit(0);  // as if killed: no destructor runs
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(status == 0);
    CHECK_FALSE(names_in(folder.path()).empty());
    write(*format, path, samples);
    CHECK(names_in(folder.path()) == std::set<std::string>{path.filename().string()});
    OpenShard shard(*format, path);
    CHECK(read_all(shard.reader()) == expected(samples));
  }
}

TEST_CASE("Equal samples give equal bytes", "[formats][conformance]") {
  FOR_EACH_FORMAT(format) {
    TemporaryFolder one;
    TemporaryFolder two;
    write(*format, shard_path(one.path(), *format), odd_samples());
    write(*format, shard_path(two.path(), *format), odd_samples());
    CHECK((files_below(one.path()) == files_below(two.path())));  // too long to print
  }
}

TEST_CASE("Dangerous keys are refused, or are nothing but names", "[formats][conformance]") {
  const std::vector<std::string> keys = {
      "../outside", "/outside", "a/../../outside",           "a/..",
      "..",         "a//b",     std::string("nul\0byte", 8), ""};
  FOR_EACH_FORMAT(format) {
    for (const std::string& key : keys) {
      TemporaryFolder folder;
      const fs::path inside = folder / "inside";
      fs::create_directory(inside);
      const fs::path path = shard_path(inside, *format);
      std::vector<Sample> samples;
      samples.push_back(make(key, {{"txt", "text"}}));
      bool refused = false;
      WriteOptions options = options_for(samples);
      options.samples = 0;  // not known: it may be none
      const auto writer = format->create(path, options);
      try {
        writer->write(samples[0].view());
      } catch (const Error& error) {
        refused = true;
        const bool code =
            error.code() == ErrorCode::kInvalidArgument || error.code() == ErrorCode::kUnsupported;
        CHECK(code);
        CHECK_THAT(error.what(), Catch::Contains("sample \""));
      }
      const bool never_valid = key.empty() || key.find('\0') != std::string::npos;
      if (never_valid) CHECK(refused);
      writer->close();
      CHECK(names_in(folder.path()) == std::set<std::string>{"inside"});
      CHECK_FALSE(fs::exists("/outside.txt"));
      OpenShard shard(*format, path);
      CHECK(read_all(shard.reader()) == (refused ? Samples{} : expected(samples)));
    }
  }
}

TEST_CASE("A refused sample leaves the shard as it was", "[formats][conformance]") {
  FOR_EACH_FORMAT(format) {
    TemporaryFolder folder;
    const fs::path path = shard_path(folder.path(), *format);
    const std::vector<Sample> samples = small_samples();
    const auto writer = format->create(path, options_for(samples));
    for (const Sample& sample : samples) {
      Sample bad(std::string("a\0b", 3));
      bad.add("jpg", "never");
      bad.add("cls", "1");
      bad.add("txt", "never");
      CHECK_THROWS_AS(writer->write(bad.view()), Error);
      writer->write(sample.view());
    }
    writer->close();
    OpenShard shard(*format, path);
    CHECK(read_all(shard.reader()) == expected(samples));
  }
}

TEST_CASE("A key that comes twice is refused or is two samples", "[formats][conformance]") {
  FOR_EACH_FORMAT(format) {
    TemporaryFolder folder;
    const fs::path path = shard_path(folder.path(), *format);
    std::vector<Sample> samples;
    samples.push_back(make("k", {{"txt", "1"}}));
    samples.push_back(make("k", {{"txt", "2"}}));
    WriteOptions options = options_for(samples);
    options.samples = 0;  // not known: it may be one
    const auto writer = format->create(path, options);
    writer->write(samples[0].view());
    std::uint64_t written = 1;
    try {
      writer->write(samples[1].view());
      ++written;
    } catch (const Error& error) {
      CHECK_THAT(error.what(), Catch::Contains("duplicate key"));
    }
    writer->close();
    OpenShard shard(*format, path);
    CHECK(shard.reader().size() == written);
  }
}

TEST_CASE("Formats recognise their own shards only", "[formats][conformance]") {
  FOR_EACH_FORMAT(format) {
    TemporaryFolder folder;
    const fs::path path = shard_path(folder.path(), *format);
    write(*format, path, small_samples());
    for (const Format* other : all_formats()) CHECK(other->recognises(path) == (other == format));
    write_text(folder / "noise", noise(5000, 9));
    write_text(folder / "empty", "");
    for (const char* name : {"noise", "empty", "missing"}) {
      CHECK_FALSE(format->recognises(folder / name));
      CHECK_THROWS_AS(OpenShard(*format, folder / name), Error);
    }
    CHECK_THROWS_AS(OpenShard(folder / "missing"), Error);
  }
}

TEST_CASE("Formats describe themselves", "[formats][conformance]") {
  FOR_EACH_FORMAT(format) {
    CHECK(&find_format(format->name()) == format);
    TemporaryFolder folder;
    const fs::path path = shard_path(folder.path(), *format);
    write(*format, path, small_samples());
    for (const bool hash : {false, true}) {
      const std::string text = format->describe(path, hash);
      CHECK(text.front() == '{');
      CHECK(text.back() == '}');
    }
    OpenShard shard(*format, path);
    CHECK_FALSE(shard.reader().info().layout.empty());
  }
  CHECK_THROWS_WITH(find_format("zip"), Catch::Contains("unknown format \"zip\""));
}
