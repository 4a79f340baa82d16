// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "formats/internal/descriptor.h"

namespace shardmill::internal {

/// A lock between processes, also of several machines: a file, held with flock(2), or where the
/// filesystem refuses that, by its existence. Ends with the process that holds it; what a dead
/// one has left is taken over.
class DestinationLock {
 public:
  /// Tries to take the lock `file`. Returns nothing if another process has it, of which
  /// `holder` then tells ("process 12 on host a").
  static std::optional<DestinationLock> try_take(const std::filesystem::path& file,
                                                 std::string* holder = nullptr);
  DestinationLock(DestinationLock&& other) noexcept;
  DestinationLock& operator=(DestinationLock&& other) noexcept;
  ~DestinationLock();  ///< Gives it back, and removes the file.

  /// Who left the lock without giving it back; empty: nobody.
  const std::string& taken_from() const noexcept { return taken_from_; }

  /// Shows that this process is alive where machines cannot see each other's processes. Call it
  /// often; it does something every few seconds.
  void beat() noexcept;

  void release() noexcept;

 private:
  DestinationLock() = default;
  static std::optional<DestinationLock> take_by_existence(const std::filesystem::path& file,
                                                          std::string* holder);

  std::filesystem::path file_;
  Descriptor fd_;  // holds flock; closed where existence counts
  bool held_ = false;
  std::string taken_from_;
  std::chrono::steady_clock::time_point last_beat_ = std::chrono::steady_clock::now();
};

}  // namespace shardmill::internal
