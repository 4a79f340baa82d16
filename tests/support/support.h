// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace shardmill::test {

/// A fresh folder below the system's temporary folder, removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const noexcept { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::string read_text(const std::filesystem::path& file);
void write_text(const std::filesystem::path& file, std::string_view text);  ///< Makes folders.

/// What a finished command left. `status` is the exit code, or 128 + the signal.
struct CommandResult {
  int status = 0;
  std::string out;
  std::string err;
};
/// Runs a shell command and waits for it.
CommandResult run_command(const std::string& command);

/// Folder of other people's real files (`SHARDMILL_SHARED`, else ../shared beside the sources)
/// joined with `name`; empty if it is absent. Tests then call skip().
std::filesystem::path shared_path(std::string_view name);

/// Makes the input of case `id` of the shared collection of faults in `folder`; false if the
/// collection is absent.
bool make_case(const std::string& id, const std::filesystem::path& folder);

/// Prints that the running test case is skipped and why; the caller returns.
void skip(const std::string& reason);
int skip_count() noexcept;  ///< How often skip() was called.

}  // namespace shardmill::test
