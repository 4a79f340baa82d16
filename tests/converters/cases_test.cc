// SPDX-License-Identifier: Apache-2.0
// Faults that people met with other tools.
#include <shardmill/converters/convert.h>
#include <shardmill/converters/inspect.h>
#include <unistd.h>

#include "tests/converters/data.h"
#include "tests/support/catch.h"

using namespace shardmill;
using namespace shardmill::test;
namespace fs = std::filesystem;

namespace {
const std::vector<std::string> kFormats = {"tar", "lmdb", "hdf5", "folder"};

bool contains(const std::vector<std::string>& texts, const std::string& part) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](const std::string& text) { return text.find(part) != std::string::npos; });
}
}  // namespace

TEST_CASE("An empty payload is reported before writing, and kept", "[cases]") {
  TemporaryFolder folder;  // row 22
  write_text(folder / "raw/a/ok.jpg", noise(100, 1));
  write_text(folder / "raw/a/zero.jpg", "");
  for (const std::string& format : kFormats) {
    INFO(format);
    bool existed = true;
    std::vector<std::string> warnings;
    Observer observer;
    observer.warning = [&](const std::string& text) {
      existed = fs::exists(folder / format);
      warnings.push_back(text);
    };
    CHECK(convert(options_for(folder / "raw", folder / format, format), observer).samples == 2);
    CHECK_FALSE(existed);
    CHECK(contains(warnings, "1 payload is empty (0 bytes), the first: sample \"a/zero\" field"));
    CHECK(verify_equal((folder / "raw").string(), (folder / format).string(), {}).ok());
    CHECK_FALSE(verify((folder / format).string(), {.decode = true}).ok());
    CHECK(contains(inspect(Dataset::open((folder / format).string())).warnings, "a/zero"));
  }
}

TEST_CASE("Hidden files, empty class folders and link loops do not become classes", "[cases]") {
  TemporaryFolder folder;  // row 23
  for (const char* name : {"a/1.jpg", "a/2.jpg", "c/1.jpg", ".ipynb_checkpoints/1-checkpoint.jpg",
                           "a/.1.jpg.swp", ".DS_Store"}) {
    write_text(folder / "raw" / name, noise(20, 3));
  }
  fs::create_directory(folder / "raw/b");
  fs::create_symlink("..", folder / "raw/a/loop");
  for (const std::string& format : kFormats) {
    INFO(format);
    const ConvertReport report = convert(options_for(folder / "raw", folder / format, format));
    CHECK(keys_of((folder / format).string()) == std::vector<std::string>{"a/1", "a/2", "c/1"});
    CHECK(contains(report.warnings, "class directory \"b\" holds no samples"));
    const auto classes = load_manifest(folder / format / "manifest.json").classes;
    CHECK(classes == Dataset::open((folder / "raw").string()).classes());
    CHECK(std::find(classes.begin(), classes.end(), ".ipynb_checkpoints") == classes.end());
    // The class number stays the place of the name in the stored list.
    DatasetReader reader(Dataset::open((folder / format).string()));
    SampleView sample;
    reader.read(2, sample);
    REQUIRE(sample.find("cls") != nullptr);
    CHECK(classes.at(std::stoul(std::string(as_text(sample.find("cls")->bytes)))) == "c");
  }
}

TEST_CASE("Files of one name in several class folders stay apart", "[cases]") {
  TemporaryFolder folder;  // row 34
  for (const char* name : {"A", "B", "C"}) write_text(folder / "raw" / name / "x.png", name);
  for (const std::string& format : kFormats) {
    INFO(format);
    CHECK(convert(options_for(folder / "raw", folder / format, format)).samples == 3);
    DatasetReader reader(Dataset::open((folder / format).string()));
    REQUIRE(reader.size() == 3);
    for (std::uint64_t n = 0; n < 3; ++n) {
      SampleView sample;
      reader.read(n, sample);
      const std::string name(1, static_cast<char>('A' + n));
      CHECK(sample.key == name + "/x");
      CHECK(as_text(sample.find("png")->bytes) == name);
      CHECK(as_text(sample.find("cls")->bytes) == std::to_string(n));
    }
  }
}

TEST_CASE("Order depends on bytes, not on locale or the order of creation", "[cases]") {
  const std::vector<std::string> names = {"a10", "a2", "A1", "\xC3\xA9", "b"};  // row 59
  const std::vector<std::string> expected = {"c/A1", "c/a10", "c/a2", "c/b", "c/\xC3\xA9"};
  TemporaryFolder folder;
  for (const std::string& name : names) write_text(folder / "one/c" / (name + ".jpg"), name);
  const std::vector<fs::path> places = {
      folder / "two", fs::exists("/dev/shm")
                          ? fs::path("/dev/shm/shardmill-order-" + std::to_string(getpid()))
                          : folder / "3"};
  convert(options_for(folder / "one", folder / "out", "tar"));
  CHECK(keys_of((folder / "out").string()) == expected);
  for (const fs::path& place : places) {
    fs::remove_all(place);
    for (auto name = names.rbegin(); name != names.rend(); ++name) {
      write_text(place / "c" / (*name + ".jpg"), *name);
    }
    for (const char* locale : {"C", "C.UTF-8", "tr_TR.UTF-8"}) {
      const fs::path out = folder / "other";
      const CommandResult run = run_command(
          std::string("LC_ALL=") + locale + " '" SHARDMILL_BINARY_DIR "/bin/shardmill' convert '" +
          place.string() + "' '" + out.string() + "' --to tar --quiet");
      CHECK(run.status == 0);
      auto made = tree(out);
      auto expected_tree = tree(folder / "out");
      made.erase(".shardmill-origin.json");  // names the source
      expected_tree.erase(".shardmill-origin.json");
      CHECK(made == expected_tree);
      fs::remove_all(out);
    }
    fs::remove_all(place);
  }
}

TEST_CASE("Names that lead out of a folder are never written there", "[cases]") {
  TemporaryFolder folder;
  const CommandResult made =
      run_command("cd '" + folder.path().string() +
                  "' && mkdir -p deep/in && /usr/bin/python3 - <<'E'\nimport io, tarfile\n"
                  "for tar, name in (('up.tar', '../x.jpg'), ('abs.tar', '/abs.jpg'), "
                  "('mid.tar', 'a/../../x.jpg')):\n"
                  "  with tarfile.open(tar, 'w', format=tarfile.USTAR_FORMAT) as t:\n"
                  "    i = tarfile.TarInfo(name); i.size = 3; t.addfile(i, io.BytesIO(b'bad'))\nE");
  REQUIRE(made.err == "");
  for (const char* name : {"up", "abs", "mid"}) {
    INFO(name);
    const fs::path tar = folder / (std::string(name) + ".tar");
    const auto before = tree(folder.path());
    const fs::path target = folder / "deep/in/out";
    const ErrorInfo error = error_of([&] { convert(options_for(tar, target, "folder")); });
    CHECK_FALSE(error.cause.empty());
    CHECK_FALSE(error.place.empty());
    CHECK(only_resumable(target));
    fs::remove_all(target);
    DatasetReader reader(Dataset::open(tar.string()));
    REQUIRE(reader.size() == 1);
    SampleView sample;
    reader.read(0, sample);
    const ErrorInfo refused = error_of([&] { extract_sample(sample, target, tar.string()); });
    CHECK(refused.code == ErrorCode::kInvalidArgument);
    CHECK(tree(folder.path()) == before);
    CHECK_FALSE(fs::exists("/abs.jpg"));
  }
}
