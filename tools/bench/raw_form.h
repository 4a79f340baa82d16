// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "tools/bench/subject.h"

namespace shardmill::tools::bench {

/// A new folder below `parent`, removed with everything in it at the end.
class WorkFolder {
 public:
  /// `parent` empty: the system's folder for temporary files.
  explicit WorkFolder(std::filesystem::path parent);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// Converts settings.datasets[0], or settings.limit samples of it, into every one of
/// settings.formats below `work`, verifies each equal, and returns the source and them. Where only
/// a part is converted, the source is represented by that part in its own format.
std::vector<Subject> convert_subjects(const Settings& settings, const WorkFolder& work,
                                      const Observer& observer);

}  // namespace shardmill::tools::bench
