// SPDX-License-Identifier: Apache-2.0
// Samples that cannot be converted, disks that are full, and several ranks.
#include <shardmill/converters/convert.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/converters/data.h"
#include "tests/support/catch.h"
#include "tests/tools/program.h"

using namespace shardmill;
using namespace shardmill::test;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kFormats = {"tar", "lmdb", "hdf5", "folder"};

// Thirty samples; each fifth names a file that is not there.
void make_list(const TemporaryFolder& folder) {
  std::string list;
  for (int i = 0; i < 30; ++i) {
    const std::string name = "f" + std::to_string(100 + i) + ".bin";
    if (i % 5 != 3) write_text(folder / "files" / name, noise(200, static_cast<unsigned>(i)));
    list += name + "," + std::to_string(i) + "\n";
  }
  write_text(folder / "list.csv", list);
}

ConvertOptions list_options(const TemporaryFolder& folder, const std::string& format) {
  auto options = options_for(folder / "list.csv", folder / "out", format);
  options.list_root = folder / "files";
  options.list_files = {{"bin", "0"}};
  options.shard_samples = 4;
  return options;
}

// A small filesystem; false if mounting is not allowed.
class SmallDisk {
 public:
  explicit SmallDisk(fs::path at) : at_(std::move(at)) {
    fs::create_directories(at_);
    mounted_ = mount("tmpfs", at_.c_str(), "tmpfs", 0, "size=4m") == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(at_.c_str(), MNT_DETACH);
  }
  explicit operator bool() const { return mounted_; }
  fs::path operator/(const std::string& name) const { return at_ / name; }

 private:
  fs::path at_;
  bool mounted_ = false;
};

}  // namespace

TEST_CASE("--on-error skip leaves out bad samples and reports them", "[errors]") {
  TemporaryFolder folder;
  make_list(folder);
  for (const std::string& format : kFormats) {
    INFO(format);
    auto options = list_options(folder, format);
    const ErrorInfo error = error_of([&] { convert(options); });
    CHECK(error.place == "sample \"f103\" field \"bin\"");  // the first in source order
    options.on_error = OnError::kSkip;
    options.error_log = folder / "log.jsonl";
    options.force = true;
    options.jobs = 1;
    const ConvertReport report = convert(options);
    CHECK(report.samples == 24);
    CHECK(report.skipped_count == 6);
    REQUIRE(report.skipped.size() == 6);
    CHECK(report.skipped[1].key == "f108");
    CHECK(report.skipped[1].cause.find("no such file") != std::string::npos);
    const std::string log = read_text(folder / "log.jsonl");
    CHECK(std::count(log.begin(), log.end(), '\n') == 6);
    CHECK(log.find("\"key\":\"f128\"") != std::string::npos);
    CHECK(verify((folder / "out").string(), {}).ok());
    const auto one = tree(folder / "out");
    options.jobs = 3;
    convert(options);
    CHECK(tree(folder / "out") == one);

    options.max_errors = Amount{6, 0};
    convert(options);
    options.max_errors = Amount{0, 10.0};
    const ErrorInfo over = error_of([&] { convert(options); });
    CHECK(over.cause.find("samples with errors") != std::string::npos);
    fs::remove_all(folder / "out");
  }
}

TEST_CASE("Samples that turn bad behind the scan are skipped in every format", "[errors]") {
  TemporaryFolder folder;
  for (int i = 0; i < 12; ++i) {
    write_text(folder / "raw" / ("k" + std::to_string(10 + i) + ".jpg"), "no image");
  }
  const CommandResult made =
      run_command("cd '" + (folder / "raw").string() +
                  "' && /usr/bin/python3 -c \"from PIL import Image\nfor i in (1, 4, 5, 9): "
                  "Image.new('RGB', (8, 8)).save(f'k{10 + i}.jpg')\"");
  REQUIRE(made.err == "");
  std::string digest;
  for (const std::string& format : kFormats) {
    INFO(format);
    auto options = options_for(folder / "raw", folder / format, format);
    options.check_decode = true;
    options.on_error = OnError::kSkip;
    options.shard_samples = 5;
    const ConvertReport report = convert(options);
    CHECK(report.samples == 4);
    CHECK(report.skipped_count == 8);
    if (digest.empty()) digest = report.content_digest;
    CHECK(report.content_digest == digest);
    CHECK(verify(options.destination.string(), {.decode = true}).ok());
    const auto whole = tree(options.destination);
    options.destination = folder / "again";
    options.jobs = 3;
    options.resume = true;
    options.plan_only = true;
    convert(options);
    options.plan_only = false;
    CHECK(convert(options).skipped_count == 8);
    CHECK(tree(folder / "again") == whole);
    fs::remove_all(folder / "again");
  }
}

TEST_CASE("A full disk stops a conversion, which can be resumed", "[errors][disk]") {
  TemporaryFolder folder;  // row 53
  const SmallDisk disk(folder / "disk");
  if (!disk) return skip("mounting a tmpfs is not permitted");
  for (int i = 0; i < 40; ++i) {
    write_text(folder / "raw/c" / (std::to_string(100 + i) + ".jpg"), noise(50'000, 1));
  }
  for (const std::string& format : kFormats) {
    INFO(format);
    auto options = options_for(folder / "raw", folder / "whole", format);
    options.shard_bytes = 300'000;
    options.force = true;
    convert(options);
    // It is known beforehand that it does not fit.
    options.force = false;
    options.destination = disk / "out";
    write_text(disk / "filler", noise(2'600'000, 2));
    ErrorInfo error = error_of([&] { convert(options); });
    CHECK(error.code == ErrorCode::kResourceExhausted);
    CHECK(error.cause.find("the result needs about") == 0);
    CHECK_FALSE(fs::exists(disk / "out"));
    fs::remove(disk / "filler");

    // The disk fills while it runs, to the last byte, or to the reserve.
    for (const double percent : {0.0, 30.0}) {
      options.reserve = Amount{0, percent};
      bool filled = false;
      Observer observer;
      observer.progress = [&](const Progress& progress) {
        if (progress.phase != "writing" || filled) return;
        filled = true;
        write_text(disk / "filler", noise(2'600'000, 2));
      };
      error = error_of([&] { convert(options, observer); });
      INFO(percent << ": " << Error(error).what());
      CHECK(error.code == ErrorCode::kResourceExhausted);
      CHECK(error.path.find((disk / "").string().substr(0, 10)) == 0);
      CHECK(error.remedy.find("--resume") != std::string::npos);
      CHECK(only_resumable(disk / "out"));
      fs::remove(disk / "filler");
      options.reserve = Amount{0, 0};
      options.resume = true;
      convert(options);
      options.resume = false;
      CHECK(tree(disk / "out") == tree(folder / "whole"));
      fs::remove_all(disk / "out");
    }
  }
}

TEST_CASE("Ranks share one plan and make what one process makes", "[ranks]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 4, 40);
  for (const std::string& format : kFormats) {
    INFO(format);
    auto options = options_for(folder / "raw", folder / "whole", format);
    options.shard_samples = 9;
    options.force = true;
    convert(options);
    const std::string command = "convert raw out --shard-count 9 --json --to " + format;
    const CommandResult run = run_command(
        "cd '" + folder.path().string() +
        "'; for r in 2 0 1; do RANK=$r WORLD_SIZE=3 '" SHARDMILL_BINARY_DIR "/bin/shardmill' " +
        command + " > $r.json 2> $r.err & done; wait");
    REQUIRE(run.status == 0);
    CHECK(tree(folder / "out") == tree(folder / "whole"));
    int totals = 0;
    for (const char* rank : {"0", "1", "2"}) {
      const std::string json = read_text(folder / (std::string(rank) + ".json"));
      CHECK(json.find(std::string("\"rank\":") + rank) != std::string::npos);
      totals += json.find("\"total\":{\"samples\":160") != std::string::npos;
      CHECK(read_text(folder / (std::string(rank) + ".err"))
                .find(std::string("rank ") + rank + " of 3 (RANK, WORLD_SIZE)\n") == 0);
    }
    CHECK(totals == 1);
    fs::remove_all(folder / "out");
  }
}

TEST_CASE("A rank that dies is run again; one that is through is not needed", "[ranks]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 4, 40);
  auto options = options_for(folder / "raw", folder / "whole", "lmdb");
  options.shard_samples = 5;
  convert(options);
  options.destination = folder / "out";
  options.world_size = 3;
  for (const int rank : {2, 0}) {
    options.rank = rank;
    const ConvertReport report = convert(options);
    CHECK_FALSE(report.complete);
    CHECK_FALSE(report.total);
  }
  options.rank = 1;
  const pid_t pid = fork();
  if (pid == 0) {
    Observer observer;
    observer.progress = [](const Progress& progress) {
      if (progress.phase == "writing") raise(SIGKILL);
    };
    try {
      convert(options, observer);
    } catch (const std::exception&) {
    }
    _exit(0);
  }
  waitpid(pid, nullptr, 0);
  CHECK_FALSE(fs::exists(folder / "out/manifest.json"));
  options.resume = true;
  const ConvertReport report = convert(options);
  REQUIRE(report.total);
  CHECK(report.total->samples == 160);
  CHECK(tree(folder / "out") == tree(folder / "whole"));
  options.rank = 0;
  CHECK(convert(options).complete);  // nothing is left to do
  options.resume = false;
  CHECK(error_of([&] { convert(options); }).code == ErrorCode::kInvalidArgument);
}

TEST_CASE("A Slurm batch script is one process; a job array is many only with --array", "[ranks]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 2, 10);
  const CommandResult batch = run_command(
      "cd '" + folder.path().string() +
      "'; SLURM_NTASKS=8 SLURM_PROCID=0 SLURM_ARRAY_TASK_ID=4 SLURM_ARRAY_TASK_COUNT=2 "
      "'" SHARDMILL_BINARY_DIR "/bin/shardmill' convert raw one --to tar --shard-count 4");
  CHECK(batch.status == 0);
  CHECK(batch.err.find("rank ") == std::string::npos);
  CHECK(fs::exists(folder / "one/manifest.json"));
  for (const char* id : {"4", "3"}) {
    const CommandResult task = run_command(
        "cd '" + folder.path().string() + "'; SLURM_ARRAY_TASK_MIN=3 SLURM_ARRAY_TASK_COUNT=2 " +
        "SLURM_ARRAY_TASK_ID=" + id +
        " '" SHARDMILL_BINARY_DIR
        "/bin/shardmill' convert raw two --to tar --shard-count 4 --array");
    CHECK(task.status == 0);
    CHECK(task.err.find("of 2 (SLURM_ARRAY_TASK_ID, SLURM_ARRAY_TASK_COUNT)\n") !=
          std::string::npos);
  }
  CHECK(tree(folder / "one") == tree(folder / "two"));
}

TEST_CASE("A tar cut at any place keeps every whole sample", "[errors][tar]") {
  TemporaryFolder folder;
  make_classes(folder / "raw", 2, 5);
  auto options = options_for(folder / "raw", folder / "whole", "tar");
  convert(options);
  const std::string tar = read_text(folder / "whole/shard-000000.tar");
  std::vector<std::size_t> ends;  // of samples: two members each, of blocks of 512 bytes
  DatasetReader reader(Dataset::open((folder / "whole").string()));
  SampleView sample;
  std::size_t end = 0;
  for (std::uint64_t n = 0; n < reader.size(); ++n) {
    reader.read(n, sample);
    for (const FieldView& field : sample.fields)
      end += 512 + (field.bytes.size() + 511) / 512 * 512;
    ends.push_back(end);
  }
  options = options_for(folder / "cut.tar", folder / "out", "tar");
  options.on_error = OnError::kSkip;
  options.force = true;
  for (std::size_t cut = ends.front(); cut < end; cut += 256) {
    INFO("cut at " << cut);
    write_text(folder / "cut.tar", tar.substr(0, cut));
    const auto expected = static_cast<std::uint64_t>(
        std::count_if(ends.begin(), ends.end(), [&](std::size_t at) { return at <= cut; }));
    const ConvertReport report = convert(options);
    // The last field may be whole without its padding.
    CHECK((report.samples == expected || report.samples == expected + 1));
    if (std::find(ends.begin(), ends.end(), cut) != ends.end()) CHECK(report.samples == expected);
    CHECK(verify((folder / "out").string(), {}).ok());
    if (cut % 512 == 256) CHECK_FALSE(report.warnings.empty());
  }
  // Also where it is packed.
  const CommandResult packed =
      run_command("cd '" + folder.path().string() +
                  "'; gzip -c whole/shard-000000.tar > p.gz; head -c 2000 p.gz > cut.tar.gz");
  REQUIRE(packed.status == 0);
  options.sources = {(folder / "cut.tar.gz").string()};
  const ConvertReport report = convert(options);
  CHECK(report.samples > 0);
  CHECK(report.samples < 10);
  CHECK(verify((folder / "out").string(), {}).ok());
}
