// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shardmill/converters/progress.h>

#include <filesystem>
#include <string>
#include <vector>

namespace shardmill::internal {

/// Sources that come once, unpacked into plain tars beside the destination, where they can be read
/// by number, by several processes, and twice (first to plan, then to write). They are removed with
/// this object.
class Spool {
 public:
  /// Replaces each of `sources` that can only be read in order by the tars made of it. Nothing is
  /// made if there are none. Throws what reading them meets; kResourceExhausted on a full disk.
  /// `mend`: of tars that are cut off or damaged, copies with the samples before the damage are
  /// used, and the observer is told; else they are left to be found by opening them.
  Spool(std::vector<std::string>& sources, const std::filesystem::path& destination,
        const Observer& observer, bool mend = false);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

 private:
  void make_folder(const std::filesystem::path& destination);
  std::string unpack(const std::filesystem::path& path, std::size_t number,
                     const Observer& observer, bool mend);
  std::filesystem::path folder_;  // empty: none was made
};

}  // namespace shardmill::internal
