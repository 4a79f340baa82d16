// SPDX-License-Identifier: Apache-2.0
#include "tests/support/support.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>

#include "tests/support/catch.h"

namespace shardmill::test {
namespace fs = std::filesystem;

namespace {
int skips = 0;

std::string quoted(const fs::path& path) { return "'" + path.string() + "'"; }
}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "shardmill-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed: " + pattern);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + file.string());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void write_text(const fs::path& file, std::string_view text) {
  fs::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

CommandResult run_command(const std::string& command) {
  TemporaryFolder folder;
  const fs::path script = folder / "command.sh";
  write_text(script, command);
  const int status = std::system(("/bin/bash " + quoted(script) + " >" + quoted(folder / "out") +
                                  " 2>" + quoted(folder / "err"))
                                     .c_str());
  CommandResult result;
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = read_text(folder / "out");
  result.err = read_text(folder / "err");
  return result;
}

fs::path shared_path(std::string_view name) {
  const char* given = std::getenv("SHARDMILL_SHARED");
  const fs::path root =
      given != nullptr ? fs::path(given) : fs::path(SHARDMILL_SOURCE_DIR).parent_path() / "shared";
  std::error_code ignored;
  return fs::exists(root / name, ignored) ? root / name : fs::path();
}

bool make_case(const std::string& id, const fs::path& folder) {
  const fs::path maker = shared_path("cases/make_case.py");
  if (maker.empty()) return false;
  const CommandResult made =
      run_command("/usr/bin/python3 " + quoted(maker) + " " + quoted(folder) + " " + id);
  if (made.status != 0) throw std::runtime_error("make_case.py " + id + ": " + made.err);
  return true;
}

void skip(const std::string& reason) {
  ++skips;
  std::cout << "skipped: " << Catch::getResultCapture().getCurrentTestName() << ": " << reason
            << std::endl;
}

int skip_count() noexcept { return skips; }

}  // namespace shardmill::test
