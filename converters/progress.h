// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

namespace shardmill {

/// How far a long operation is. Totals are 0 where they are not known yet.
struct Progress {
  std::string_view phase;  ///< What is being done: "scanning", "writing", "verifying".
  std::uint64_t samples = 0;
  std::uint64_t total_samples = 0;
  std::uint64_t bytes = 0;  ///< Payload bytes, summed over fields.
  std::uint64_t total_bytes = 0;
  std::uint64_t shards = 0;  ///< Finished ones, of the shards that this process works on.
  std::uint64_t total_shards = 0;
  std::uint64_t errors = 0;  ///< Samples that were skipped.
};

/// How a long operation talks to its caller. All callbacks run in the calling thread.
struct Observer {
  /// Called several times a second, also while nothing advances. May be empty.
  std::function<void(const Progress&)> progress;
  /// Called for each oddity that does not stop the operation, as soon as it is known. May be empty.
  std::function<void(const std::string&)> warning;
  /// Ends the operation soon after a stop is requested; it then throws Interrupted.
  std::stop_token stop;
};

/// Thrown by an operation that ended because its stop token asked for it.
class Interrupted : public std::exception {
 public:
  explicit Interrupted(std::string remedy = {}) : remedy_(std::move(remedy)) {}
  const char* what() const noexcept override { return "interrupted"; }
  /// How to go on from here; empty where nothing was kept.
  const std::string& remedy() const noexcept { return remedy_; }

 private:
  std::string remedy_;
};

}  // namespace shardmill
